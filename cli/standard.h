/* For programs: standard input, output and error as whoever started them left these. */
#ifndef SMOL_CLI_STANDARD_H
#define SMOL_CLI_STANDARD_H

/* Takes the places of those that are closed, so that no file that is opened later is read as
 * standard input, or gets what is printed: reading and writing them fails, as it does without this.
 * To be called first. */
void smol_standard_reserve(void);

#endif
