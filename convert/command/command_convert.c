/* smolconv INPUT OUT.smol: converts a checkpoint. */
#include <float.h>
#include <stddef.h>

#include "convert/command/command.h"
#include "convert/convert.h"

struct convert_settings {
    struct convert_options convert;
    uint64_t size;
    float bits, max_kl;
};

#define FIELD(name) offsetof(struct convert_settings, convert.name)
#define GOAL_FIELD(name) offsetof(struct convert_settings, name)

/* in the order of enum blob_dtype */
static const char *const dtype_words[] = {"f32", "bf16", "int8", "int6", "int5", "int4", NULL};

static const struct option_rule rules[] = {
    {"dtype", 0, "TYPE", "store matrices as int4, int5, int6, int8, bf16 or f32 (int8)",
     OPTION_CHOICE, FIELD(dtype), DTYPE_F32, 0, dtype_words},
    {"size", 0, "SIZE", "choose dtypes for a blob of at most SIZE, such as 85MB", OPTION_SIZE,
     GOAL_FIELD(size), 1, 0, NULL},
    {"bits", 0, "X", "choose dtypes of at most X bits for each weight, scales included",
     OPTION_REAL, GOAL_FIELD(bits), 1, 32, NULL},
    {"max-kl", 0, "X", "choose dtypes for an expected KL divergence of at most X nats", OPTION_REAL,
     GOAL_FIELD(max_kl), (double)FLT_MIN, 100, NULL},
    RULE_CALIBRATION,
    RULE_THREADS,
    RULES_SOURCE,
    {"reranker", 0, "", "convert Qwen3-Reranker, which scores pairs of texts by yes and no",
     OPTION_FLAG, FIELD(source.reranker), 0, 0, NULL},
    {"context", 0, "N", "longest text, in tokens: selects the factors of longrope", OPTION_COUNT,
     FIELD(source.context), 1, 1 << 24, NULL},
    RULE_FORCE("OUT.smol"),
    RULE_QUIET,
};

static const struct command_line line = {
    .program = "smolconv",
    .words = "INPUT OUT.smol",
    .about = "Converts a Hugging Face checkpoint into a .smol blob.\n"
             "INPUT is the checkpoint's folder (or its folder in the cache of the Hub), the\n"
             "model.safetensors in it, the model.safetensors.index.json that lists its shards,\n"
             "or a GGUF file.\n",
    .commands = "  smolconv inspect     describe a blob, a safetensors file or a checkpoint\n"
                "  smolconv verify      check a blob, or that it was made from a checkpoint\n"
                "  smolconv diff        compare two models\n"
                "  smolconv report      describe a model on a page for a browser\n"
                "  smolconv pack        compress a blob for shipping\n"
                "  smolconv unpack      restore a packed blob while it arrives\n"
                "  smolconv delta       make a delta between two blobs\n"
                "  smolconv patch       make the new blob from the old one and a delta\n",
    .notes =
        "int4, int5 and int6 are for the matrices of the layers. The embedding and the output "
        "layer\n"
        "are then int6 (for int4) or int8. With --size, --bits or --max-kl each matrix has a "
        "dtype\n"
        "from int4 to int8 of its own: those with the least expected divergence, or the least "
        "size.\n"
        "These options need --calibration with statistics of smolrun calibrate.\n\n"
        "Exit status: 0 done, 1 the models differ or a blob is not from its checkpoint, 2 wrong\n"
        "usage, 3 a file missing, unreadable or unwritable, 4 a file damaged or malformed, 5 not\n"
        "supported, 6 out of memory.\n",
    .min_words = 2,
    .max_words = 2,
    .rules = rules,
    .n_rules = OPTION_RULES(rules),
};

/* Moves the choice of dtypes to the options. */
static smol_status settle_dtype(struct convert_settings *settings, smol_error *error)
{
    struct convert_options *options = &settings->convert;
    int n = (options->dtype != 0) + (settings->size > 0) + (settings->bits > 0) +
            (settings->max_kl > 0);
    if (n > 1)
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "--dtype, --size, --bits and --max-kl: give only one of them");
    if (settings->size > 0)
        options->goal = (struct goal){GOAL_SIZE, (double)settings->size};
    if (settings->bits > 0)
        options->goal = (struct goal){GOAL_BITS, (double)settings->bits};
    if (settings->max_kl > 0)
        options->goal = (struct goal){GOAL_KL, (double)settings->max_kl};
    if (options->goal.kind && !names_stats(options->source.calibration))
        return smol_fail(error, SMOL_ERROR_USAGE,
                         "--size, --bits and --max-kl need statistics of the model: make them with "
                         "smolrun calibrate and give --calibration STATS");
    if (options->dtype == 0)
        options->dtype = options->goal.kind ? DTYPE_INT4 : DTYPE_INT8;
    return SMOL_OK;
}

smol_status smolconv_convert(int argc, char **argv, smol_error *error)
{
    struct convert_settings settings = {.convert.n_threads = smol_cpu_count()};
    const char *words[2];
    bool shown;
    if (argc < 2) {
        smol_options_usage(&line);
        return SMOL_ERROR_USAGE; /* the usage is the message */
    }
    smol_status status = smol_options_parse(&line, argc, argv, &settings, words, &shown, error);
    if (status || shown)
        return status;
    status = smol_options_check_file(&line, words[0], error);
    if (!status)
        status = settle_dtype(&settings, error);
    return status ? status : smol_convert(words[0], words[1], &settings.convert, error);
}
