/* Replaces the parser of a command's words (ld's --wrap) in copies of the programs that are not
 * installed: prints the command's table as JSON for scripts/gen-docs. Manual and completions
 * therefore match --help, and the programs need no option for it. */
#include <stdio.h>
#include <string.h>

#include "cli/json_out.h"
#include "cli/options.h"

smol_status __wrap_smol_options_parse(const struct command_line *command, int argc, char **argv,
                                      void *settings, const char **words, bool *shown,
                                      smol_error *error);

static const char *kind_of(const struct option_rule *rule)
{
    static const char *const kinds[] = {"flag", "count", "limit", "seed",  "size",
                                        "real", "text",  "texts", "choice"};
    return kinds[rule->kind];
}

static void print_rule(struct json_out *json, const struct option_rule *rule)
{
    const char letter[2] = {rule->letter, '\0'};
    smol_json_open(json, '{');
    smol_json_member_text(json, "name", rule->name);
    smol_json_member_text(json, "letter", letter);
    smol_json_member_text(json, "value", rule->value);
    smol_json_member_text(json, "help", rule->help);
    smol_json_member_text(json, "kind", kind_of(rule));
    smol_json_member_real(json, "low", rule->low);
    smol_json_member_real(json, "high", rule->high);
    smol_json_member_open(json, "choices", '[');
    for (size_t i = 0; rule->choices && rule->choices[i]; i++)
        smol_json_text(json, rule->choices[i], strlen(rule->choices[i]));
    smol_json_close(json, ']');
    smol_json_close(json, '}');
}

smol_status __wrap_smol_options_parse(const struct command_line *command, int argc, char **argv,
                                      void *settings, const char **words, bool *shown,
                                      smol_error *error)
{
    (void)argc, (void)argv, (void)settings, (void)words, (void)error;
    struct json_out json = {.file = stdout};
    smol_json_open(&json, '{');
    smol_json_member_text(&json, "program", command->program);
    smol_json_member_text(&json, "words", command->words);
    smol_json_member_text(&json, "about", command->about);
    smol_json_member_text(&json, "commands", command->commands ? command->commands : "");
    smol_json_member_text(&json, "notes", command->notes);
    smol_json_member_open(&json, "options", '[');
    for (size_t i = 0; i < command->n_rules; i++)
        print_rule(&json, &command->rules[i]);
    smol_json_close(&json, ']');
    smol_json_close(&json, '}');
    *shown = true;
    return SMOL_OK;
}
