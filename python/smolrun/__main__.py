"""python -m smolrun"""

from .programs import main

main()
