/* The sub-commands of smolrun. Each parses its own words (argv[0] is its name), prints its own
 * errors and returns the exit status. */
#ifndef SMOL_SMOLRUN_COMMAND_H
#define SMOL_SMOLRUN_COMMAND_H

int smol_command_generate(int argc, char **argv); /* the command without a name */
int smol_command_chat(int argc, char **argv);
int smol_command_tokenize(int argc, char **argv);
int smol_command_logits(int argc, char **argv);
int smol_command_bench(int argc, char **argv);
int smol_command_perplexity(int argc, char **argv);
int smol_command_explain(int argc, char **argv);
int smol_command_calibrate(int argc, char **argv);
int smol_command_embed(int argc, char **argv);

#endif
