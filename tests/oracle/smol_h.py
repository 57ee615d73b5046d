"""smol.h as ctypes sees it, from the Python package; the package itself is not imported, because that loads its library."""

import importlib.util
from pathlib import Path

_file = Path(__file__).resolve().parent.parent.parent / "python/smolrun/_smol_h.py"
_spec = importlib.util.spec_from_file_location("_smol_h", _file)
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
globals().update({name: value for name, value in vars(_module).items() if not name.startswith("_")})
