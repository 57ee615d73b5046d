/* smolrun tokenize: converts text to token ids, or ids to text. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/print.h"
#include "cli/standard.h"
#include "cli/terminal.h"
#include "cli/text.h"
#include "smolrun/command.h"
#include "smolrun/load.h"
#include "smolrun/prompt.h"

static const struct option_rule rules[] = {
    {"decode", 0, "IDS", "print the text of these token ids; -: standard input", OPTION_TEXT,
     FIELD(decode), 0, 0, NULL},
    RULES_MODEL,
};

static const struct command_line command = {
    .program = "smolrun",
    .words = "tokenize FILE.smol TEXT",
    .about = "Prints the token ids of TEXT on one line. TEXT -: standard input, as it is.\n",
    .notes = "Tokens that the tokenizer puts around a text, such as bos, are included.\n"
             "IDS are separated by spaces. Their text is followed by a newline; bytes that are\n"
             "not UTF-8 are shown as U+FFFD.\n",
    .max_words = 2,
    .rules = rules,
    .n_rules = OPTION_RULES(rules),
};

static smol_status print_ids(const smol_model *model, const char *argument, smol_error *error)
{
    struct text_in in;
    uint32_t *ids = NULL;
    size_t n = 0;
    smol_status status = smol_text_read(argument, &in, error);
    if (status)
        return status;
    status = smol_tokenize(model, in.text, in.size,
                           &(smol_tokenize_params){.parse_special = 1, .whole_text = 1}, &ids, &n,
                           error);
    free(in.owned);
    for (size_t i = 0; i < n; i++)
        printf(i ? " %u" : "%u", ids[i]);
    smol_free(ids);
    if (status)
        return status;
    putchar('\n');
    return smol_standard_flush(error);
}

static smol_status print_text(const smol_model *model, const char *argument, smol_error *error)
{
    uint32_t *ids;
    char *text;
    size_t n, size;
    smol_status status =
        smol_prompt_list(argument, smol_model_get_info(model).vocab_size, &ids, &n, error);
    if (status)
        return status;
    status = smol_detokenize(model, ids, n, 1, &text, &size, error);
    free(ids);
    if (status)
        return status;
    smol_terminal_print(text, size);
    smol_free(text);
    putchar('\n');
    return smol_standard_flush(error);
}

static smol_status tokenize(const struct settings *settings, smol_error *error)
{
    if (!settings->text == !settings->decode)
        return smol_fail(error, SMOL_ERROR_USAGE, "tokenize: give either TEXT or --decode");
    smol_model *model;
    smol_status status = smol_load_model(settings, &model, error);
    if (status)
        return status;
    status = settings->text ? print_ids(model, settings->text, error)
                            : print_text(model, settings->decode, error);
    smol_model_close(model);
    return status;
}

smol_status smolrun_tokenize(int argc, char **argv, smol_error *error)
{
    struct settings settings = {0};
    bool shown;
    smol_status status = smol_settings_parse(&command, argc, argv, &settings, &shown, error);
    if (status || shown)
        return status;
    return tokenize(&settings, error);
}
