/* The formats of strings as regular expressions, see schema_compiler.h. */
#include <string.h>

#include "runtime/constrain/schema_compiler.h"

/* dates, with the days of each month and leap years */
#define YEAR "[0-9]{4}"
#define LEAP_YEAR "([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
#define DATE                                                                                       \
    "(" YEAR "-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|"      \
    "02-(0[1-9]|1[0-9]|2[0-8]))|" LEAP_YEAR "-02-29)"
#define HOUR "([01][0-9]|2[0-3])"
#define TIME                                                                                       \
    "(" HOUR ":[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([Zz]|[+\\-]" HOUR ":[0-5][0-9])|"                 \
    "23:59:60(\\.[0-9]+)?([Zz]|[+\\-]00:00))"
#define N "[0-9]+"
#define DURATION_TIME "T(" N "H(" N "M(" N "S)?)?|" N "M(" N "S)?|" N "S)"
#define DURATION                                                                                   \
    "P(" N "W|(" N "D|" N "M(" N "D)?|" N "Y(" N "M(" N "D)?)?)(" DURATION_TIME                    \
    ")?|" DURATION_TIME ")"

/* addresses */
#define OCTET "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4 OCTET "(\\." OCTET "){3}"
#define HEX "[0-9A-Fa-f]"
#define H16 HEX "{1,4}"
#define LS32 "(" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                                       \
    "((" H16 ":){6}" LS32 "|::(" H16 ":){5}" LS32 "|(" H16 ")?::(" H16 ":){4}" LS32                \
    "|((" H16 ":)?" H16 ")?::(" H16 ":){3}" LS32 "|((" H16 ":){0,2}" H16 ")?::(" H16               \
    ":){2}" LS32 "|((" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|((" H16 ":){0,4}" H16               \
    ")?::" LS32 "|((" H16 ":){0,5}" H16 ")?::" H16 "|((" H16 ":){0,6}" H16 ")?::)"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9\\-]{0,61}[A-Za-z0-9])?"
#define HOSTNAME LABEL "(\\." LABEL ")*"
#define ATOM "[A-Za-z0-9!#$%&'*+/=?^_`{|}~\\-]+"
#define EMAIL                                                                                      \
    "(" ATOM "(\\." ATOM ")*|\"([ !#-\\[\\]-~]|\\\\[ -~])*\")@(" HOSTNAME "|\\[" IPV4              \
    "\\]|\\[IPv6:" IPV6 "\\])"

/* RFC 3986 */
#define SUB "!$&'()*+,;="
#define PERCENT "%" HEX "{2}"
#define PCHAR "([A-Za-z0-9._~" SUB ":@\\-]|" PERCENT ")"
#define SEGMENTS "(/" PCHAR "*)*"
#define AUTHORITY                                                                                  \
    "//(([A-Za-z0-9._~" SUB ":\\-]|" PERCENT ")*@)?(\\[(" IPV6 "|[Vv]" HEX "+\\.[A-Za-z0-9._~" SUB \
    ":\\-]+)\\]|([A-Za-z0-9._~" SUB "\\-]|" PERCENT ")*)(:[0-9]*)?" SEGMENTS
#define TAIL "(\\?(" PCHAR "|[/?])*)?(#(" PCHAR "|[/?])*)?"
#define URI                                                                                        \
    "[A-Za-z][A-Za-z0-9+.\\-]*:(" AUTHORITY "|/(" PCHAR "+" SEGMENTS ")?|" PCHAR "+" SEGMENTS      \
    "|)" TAIL
#define NO_COLON "([A-Za-z0-9._~" SUB "@\\-]|" PERCENT ")"
#define RELATIVE "(" AUTHORITY "|/(" PCHAR "+" SEGMENTS ")?|" NO_COLON "+" SEGMENTS "|)" TAIL
#define VARIABLE                                                                                   \
    "([A-Za-z0-9_]|" PERCENT ")(\\.?([A-Za-z0-9_]|" PERCENT "))*(:[1-9][0-9]{0,3}|\\*)?"
#define URI_TEMPLATE                                                                               \
    "([^\\x00-\\x20\"%'<>\\\\^`{|}\\x7f]|" PERCENT "|\\{[+#./;?&=,!@|]?" VARIABLE "(," VARIABLE    \
    ")*\\})*"
#define POINTER "(/([^~/]|~[01])*)*"

const char *smol_schema_format(struct json_text name)
{
    static const struct {
        const char *name, *pattern;
    } formats[] = {
        {"date-time", DATE "[Tt]" TIME},
        {"date", DATE},
        {"time", TIME},
        {"duration", DURATION},
        {"email", EMAIL},
        {"hostname", HOSTNAME},
        {"ipv4", IPV4},
        {"ipv6", IPV6},
        {"uri", URI},
        {"uri-reference", "(" URI "|" RELATIVE ")"},
        {"uri-template", URI_TEMPLATE},
        {"uuid", HEX "{8}-" HEX "{4}-" HEX "{4}-" HEX "{4}-" HEX "{12}"},
        {"json-pointer", POINTER},
        {"relative-json-pointer", "(0|[1-9][0-9]*)(#|" POINTER ")"},
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (json_text_is(name, formats[i].name))
            return formats[i].pattern;
    return NULL;
}
