/* The formats of strings as regular expressions, see schema_compiler.h. */
#include <string.h>

#include "common/buffer.h"
#include "common/memory.h"
#include "runtime/constrain/schema_compiler.h"

/* Parts of formats. In a part or a format, the byte N stands for part N in parentheses. */
static const char *const parts[] = {
    NULL, "[0-9a-fA-F]",                         /* \1 hexadecimal digit */
    "25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9]", /* \2 a byte in decimal */
    "\2(\\.\2){3}",                              /* \3 IPv4 address */
    "\1{1,4}",                                   /* \4 a group of an IPv6 address */
    "\4:\4|\3",                                  /* \5 its last 32 bits */
    "(\4:){6}\5|::(\4:){5}\5|\4?::(\4:){4}\5|((\4:)?\4)?::(\4:){3}\5|((\4:){0,2}\4)?::(\4:){2}\5|"
    "((\4:){0,3}\4)?::\4:\5|((\4:){0,4}\4)?::\5|((\4:){0,5}\4)?::\4|((\4:){0,6}\4)?::", /* \6 IPv6
                                                                                         */
    /* \7 a label of a host's name, without "--" in the third place, as in the ASCII form of others
     */
    "[A-Za-z0-9]([A-Za-z0-9\\-]?[A-Za-z0-9]|[A-Za-z0-9\\-]{2}[A-Za-z0-9]|[A-Za-z0-9\\-]"
    "([A-Za-z0-9][A-Za-z0-9\\-]|-[A-Za-z0-9])[A-Za-z0-9\\-]{0,58}[A-Za-z0-9])?",
    "\7(\\.\7)*",                            /* \10 a host's name */
    "[A-Za-z0-9!#$%&'*+/=?^_`{|}~\\-]+",     /* \11 an atom of an e-mail address */
    "[A-Za-z0-9._~!$&'()*+,;=:@\\-]|%\1{2}", /* \12 a character of a path */
    "(/\12*)*",                              /* \13 segments of a path */
    "(\\?(\12|[/?])*)?(#(\12|[/?])*)?",      /* \14 query and fragment */
    "//"
    "(([A-Za-z0-9._~!$&'()*+,;=:\\-]|%\1{2})*@)?(\\[(\6|[Vv]\1+\\.[A-Za-z0-9._~!$&'()*+,;=:\\-]+)"
    "\\]|"
    "([A-Za-z0-9._~!$&'()*+,;=\\-]|%\1{2})*)(:[0-9]*)?\13",    /* \15 authority and path */
    "[A-Za-z][A-Za-z0-9+.\\-]*:(\15|/(\12+\13)?|\12+\13|)\14", /* \16 URI, RFC 3986 */
    "[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"
    "02-(0[1-9]|1[0-9]|2[0-8]))|([0-9]{2}(0[48]|[2468][048]|[13579][26])|"
    "([02468][048]|[13579][26])00)-02-29", /* \17 date */
    "[01][0-9]|2[0-3]",                    /* \20 hour */
    "\20:[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+\\-]\20:[0-5][0-9])|"
    "23:59:60(\\.[0-9]+)?([Zz]|[+\\-]00:00)", /* \21 time */
    "[0-9]+",                                 /* \22 a number */
    "T(\22H(\22M(\22S)?)?|\22M(\22S)?|\22S)", /* \23 time of a duration */
    "(/([^~/]|~[01])*)*",                     /* \24 JSON pointer */
    "([A-Za-z0-9_]|%\1{2})(\\.?([A-Za-z0-9_]|%\1{2}))*(:[1-9][0-9]{0,3}|\\*)?", /* \25 variable */
};

static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date-time", "\17[Tt]\21"},
    {"date", "\17"},
    {"time", "\21"},
    {"duration", "P(\22W|(\22D|\22M(\22D)?|\22Y(\22M(\22D)?)?)\23?|\23)"},
    {"email", "(\11(\\.\11)*|\"([ !#-\\[\\]-~]|\\\\[ -~])*\")@(\10|\\[\3\\]|\\[IPv6:\6\\])"},
    {"hostname", "\10"},
    {"ipv4", "\3"},
    {"ipv6", "\6"},
    {"uri", "\16"},
    {"uri-reference", "\16|(\15|/(\12+\13)?|([A-Za-z0-9._~!$&'()*+,;=@\\-]|%\1{2})+\13|)\14"},
    {"uri-template", "([^\\x00-\\x20\"%<>\\\\^`{|}\\x7f]|%\1{2}|\\{[+#./;?&=,!@|]?\25(,\25)*\\})*"},
    {"uuid", "\1{8}-\1{4}-\1{4}-\1{4}-\1{12}"},
    {"json-pointer", "\24"},
    {"relative-json-pointer", "(0|[1-9][0-9]*)(#|\24)"},
};

enum { N_FORMATS = sizeof formats / sizeof *formats };

/* Returns the number of the format, or N_FORMATS. */
static unsigned find(struct json_text name)
{
    unsigned i = 0;
    while (i < N_FORMATS && !json_text_is(name, formats[i].name))
        i++;
    return i;
}

bool smol_schema_is_format(struct compiler *c, const struct json_node *keyword)
{
    static const char *const others[] = {"regex", "iri", "iri-reference", "idn-email",
                                         "idn-hostname"};
    if (keyword->kind != JSON_STRING)
        return false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (json_text_is(keyword->text, others[i]))
            smol_schema_fail(c, keyword, "the format is not supported");
    return find(keyword->text) < N_FORMATS;
}

/* Appends a pattern with its parts; recursion ends because parts refer to earlier ones. */
static void write_pattern(struct buffer *out, const char *pattern)
{
    for (const char *at = pattern; *at; at++) {
        if (*at >= ' ') {
            smol_buffer_add(out, at, 1);
            continue;
        }
        smol_buffer_add(out, "(", 1);
        write_pattern(out, parts[(int)*at]);
        smol_buffer_add(out, ")", 1);
    }
}

struct json_text smol_schema_format(struct compiler *c, struct json_text name)
{
    unsigned format = find(name);
    struct json_text *known = &c->formats[format];
    struct buffer out = {0};
    if (known->at)
        return *known;
    write_pattern(&out, formats[format].pattern);
    char *text = smol_schema_take(c, out.size);
    if (text && out.text && !out.failed)
        *known = (struct json_text){memcpy(text, out.text, out.size), out.size};
    else
        known->at = "";
    if (out.failed && !c->status)
        c->status = smol_fail_memory(c->error, "a schema");
    smol_free(out.text);
    return *known;
}
