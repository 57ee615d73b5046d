/* The commands of smolconv, and rows that their tables of options share. */
#ifndef SMOL_CONVERT_COMMAND_COMMAND_H
#define SMOL_CONVERT_COMMAND_COMMAND_H

#include "cli/options.h"
#include "common/error.h"
#include "common/pool.h"

command_function smolconv_convert; /* the command without a name */
command_function smolconv_delta;
command_function smolconv_diff;
command_function smolconv_inspect;
command_function smolconv_pack;
command_function smolconv_patch;
command_function smolconv_report;
command_function smolconv_unpack;
command_function smolconv_verify;

/* Rows that several tables of options share. FIELD(name) is the offset in the options of the
 * command. */
#define RULE_THREADS                                                                               \
    OPTION_ROW("threads", 0, "N", "threads (one per available processor)", OPTION_COUNT,           \
               FIELD(n_threads), 1, POOL_MAX_THREADS, NULL)
#define RULE_FORCE(output)                                                                         \
    OPTION_ROW("force", 0, "", "overwrite " output, OPTION_FLAG, FIELD(force), 0, 0, NULL)
#define RULE_QUIET                                                                                 \
    OPTION_ROW("quiet", 0, "", "no progress bar, no summary", OPTION_FLAG, FIELD(quiet), 0, 0, NULL)

#define RULE_CONFIG                                                                                \
    OPTION_ROW("config", 0, "FILE",                                                                \
               "read config.json from FILE, other JSON files from its folder", OPTION_TEXT,        \
               FIELD(source.config), 0, 0, NULL)

#define RULE_CALIBRATION                                                                           \
    OPTION_ROW("calibration", 0, "STATS",                                                          \
               "round int8 to int4 weights by statistics of smolrun calibrate, or none",           \
               OPTION_TEXT, FIELD(source.calibration), 0, 0, NULL)

/* Options for reading a checkpoint. FIELD(source) is a struct source_options. */
#define RULES_SOURCE                                                                               \
    RULE_CONFIG,                                                                                   \
        OPTION_ROW("lora", 0, "DIR[:SCALE]",                                                       \
                   "merge the LoRA adapter in DIR, times SCALE, into the weights", OPTION_TEXTS,   \
                   FIELD(source.lora), 0, 0, NULL),                                                \
        OPTION_ROW("template", 0, "NAME", "use the chat template NAME, where there are several",   \
                   OPTION_TEXT, FIELD(source.template_name), 0, 0, NULL),                          \
        OPTION_ROW("chat-template", 0, "FILE",                                                     \
                   "use the chat template in FILE, not the checkpoint's", OPTION_TEXT,             \
                   FIELD(source.template_file), 0, 0, NULL)

#endif
