/* The formats of strings as regular expressions, see schema_compiler.h. */
#include <string.h>

#include "common/buffer.h"
#include "common/memory.h"
#include "runtime/constrain/schema_compiler.h"

/* Parts of formats. In a part or a format, the byte N stands for part N in parentheses. A zero
 * byte ends each one: pointers to them would take more bytes than they do. */
/* clang-format off */
static const char parts[] =
    "\0" "[0-9a-fA-F]\0"                         /* \1 hexadecimal digit */
    "25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9]\0" /* \2 a byte in decimal */
    "\2(\\.\2){3}\0"                              /* \3 IPv4 address */
    "\1{1,4}\0"                                   /* \4 a group of an IPv6 address */
    "\4:\4|\3\0"                                  /* \5 its last 32 bits */
    "(\4:){6}\5|::(\4:){5}\5|\4?::(\4:){4}\5|((\4:)?\4)?::(\4:){3}\5|((\4:){0,2}\4)?::(\4:){2}\5|"
    "((\4:){0,3}\4)?::\4:\5|((\4:){0,4}\4)?::\5|((\4:){0,5}\4)?::\4|((\4:){0,6}\4)?::\0" /* \6 IPv6
                                                                                         */
    /* \7 a label of a host's name, without "--" in the third place, as in the ASCII form of others
     */
    "[A-Za-z0-9]([A-Za-z0-9\\-]?[A-Za-z0-9]|[A-Za-z0-9\\-]{2}[A-Za-z0-9]|[A-Za-z0-9\\-]"
    "([A-Za-z0-9][A-Za-z0-9\\-]|-[A-Za-z0-9])[A-Za-z0-9\\-]{0,58}[A-Za-z0-9])?\0"
    "\7(\\.\7)*\0"                            /* \10 a host's name */
    "[A-Za-z0-9!#$%&'*+/=?^_`{|}~\\-]+\0"     /* \11 an atom of an e-mail address */
    "[A-Za-z0-9._~!$&'()*+,;=:@\\-]|%\1{2}\0" /* \12 a character of a path */
    "(/\12*)*\0"                              /* \13 segments of a path */
    "(\\?(\12|[/?])*)?(#(\12|[/?])*)?\0"      /* \14 query and fragment */
    "//"
    "(([A-Za-z0-9._~!$&'()*+,;=:\\-]|%\1{2})*@)?(\\[(\6|[Vv]\1+\\.[A-Za-z0-9._~!$&'()*+,;=:\\-]+)"
    "\\]|"
    "([A-Za-z0-9._~!$&'()*+,;=\\-]|%\1{2})*)(:[0-9]*)?\13\0"    /* \15 authority and path */
    "[A-Za-z][A-Za-z0-9+.\\-]*:(\15|/(\12+\13)?|\12+\13|)\14\0" /* \16 URI, RFC 3986 */
    "[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"
    "02-(0[1-9]|1[0-9]|2[0-8]))|([0-9]{2}(0[48]|[2468][048]|[13579][26])|"
    "([02468][048]|[13579][26])00)-02-29\0" /* \17 date */
    "[01][0-9]|2[0-3]\0"                    /* \20 hour */
    "\20:[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+\\-]\20:[0-5][0-9])|"
    "23:59:60(\\.[0-9]+)?([Zz]|[+\\-]00:00)\0" /* \21 time */
    "[0-9]+\0"                                 /* \22 a number */
    "T(\22H(\22M(\22S)?)?|\22M(\22S)?|\22S)\0" /* \23 time of a duration */
    "(/([^~/]|~[01])*)*\0"                     /* \24 JSON pointer */
    "([A-Za-z0-9_]|%\1{2})(\\.?([A-Za-z0-9_]|%\1{2}))*(:[1-9][0-9]{0,3}|\\*)?\0" /* \25 variable */
    ;

/* Names and patterns in turn. */
static const char formats[] =
    "date-time\0" "\17[Tt]\21\0"
    "date\0" "\17\0"
    "time\0" "\21\0"
    "duration\0" "P(\22W|(\22D|\22M(\22D)?|\22Y(\22M(\22D)?)?)\23?|\23)\0"
    "email\0" "(\11(\\.\11)*|\"([ !#-\\[\\]-~]|\\\\[ -~])*\")@(\10|\\[\3\\]|\\[IPv6:\6\\])\0"
    "hostname\0" "\10\0"
    "ipv4\0" "\3\0"
    "ipv6\0" "\6\0"
    "uri\0" "\16\0"
    "uri-reference\0" "\16|(\15|/(\12+\13)?|([A-Za-z0-9._~!$&'()*+,;=@\\-]|%\1{2})+\13|)\14\0"
    "uri-template\0" "([^\\x00-\\x20\"%<>\\\\^`{|}\\x7f]|%\1{2}|\\{[+#./;?&=,!@|]?\25(,\25)*\\})*\0"
    "uuid\0" "\1{8}-\1{4}-\1{4}-\1{4}-\1{12}\0"
    "json-pointer\0" "\24\0"
    "relative-json-pointer\0" "(0|[1-9][0-9]*)(#|\24)\0"
    ;
/* clang-format on */

static const char *next_text(const char *text)
{
    return text + strlen(text) + 1;
}

/* Returns the pattern of a format, and its number in *number. Returns NULL for another name. */
static const char *find(struct json_text name, unsigned *number)
{
    *number = 0;
    for (const char *at = formats; *at; at = next_text(next_text(at)), ++*number)
        if (json_text_is(name, at))
            return next_text(at);
    return NULL;
}

bool smol_schema_is_format(struct compiler *c, const struct json_node *keyword)
{
    static const char others[][14] = {"regex", "iri", "iri-reference", "idn-email", "idn-hostname"};
    if (!smol_schema_is(c, JSON_STRING, keyword))
        return false;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (json_text_is(keyword->text, others[i]))
            smol_schema_fail(c, keyword, "the format is not supported");
    unsigned number;
    return find(keyword->text, &number) != NULL;
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
        const char *part = parts;
        for (unsigned number = (unsigned char)*at; number > 0; number--)
            part = next_text(part);
        write_pattern(out, part);
        smol_buffer_add(out, ")", 1);
    }
}

struct json_text smol_schema_format(struct compiler *c, struct json_text name)
{
    unsigned format;
    const char *pattern = find(name, &format);
    struct json_text *known = &c->formats[format];
    struct buffer out = {0};
    if (known->at)
        return *known;
    write_pattern(&out, pattern);
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
