// Patterns of the formats of JSON Schema. Each is inside its RFC; none is all of it.
#include <array>

#include "grammar/schema_compiler.h"

namespace tokamak::grammar {

namespace {

#define TOKAMAK_LABEL "[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*"
#define TOKAMAK_HOST TOKAMAK_LABEL "(?:\\." TOKAMAK_LABEL ")*"
// RFC 3339. Years 0001 to 9999; the 29th of February in leap years alone; no leap seconds.
#define TOKAMAK_DATE                                                                                    \
  "(?:(?:[1-9]\\d{3}|0[1-9]\\d\\d|00[1-9]\\d|000[1-9])-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|" \
  "(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|02-(?:0[1-9]|1\\d|2[0-8]))|"                                     \
  "(?:\\d\\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29)"
#define TOKAMAK_TIME "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define TOKAMAK_OCTET "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define TOKAMAK_H "[0-9a-fA-F]{1,4}"
#define TOKAMAK_PATH "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*"

constexpr auto kFormats = std::to_array<Format>({
    {"date", "^" TOKAMAK_DATE "$"},
    {"time", "^" TOKAMAK_TIME "$"},
    {"date-time", "^" TOKAMAK_DATE "T" TOKAMAK_TIME "$"},
    {"duration", "^P(?:\\d{1,6}W|\\d{1,6}[YMD](?:T\\d{1,6}[HMS])?|T\\d{1,6}[HMS])$"},
    {"uuid", "^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"},
    {"email", "^[A-Za-z0-9_+-]+(?:\\.[A-Za-z0-9_+-]+)*@" TOKAMAK_LABEL "(?:\\." TOKAMAK_LABEL ")+$", 100},
    {"hostname", "^" TOKAMAK_HOST "$", 63},
    {"ipv4", "^" TOKAMAK_OCTET "(?:\\." TOKAMAK_OCTET "){3}$"},
    {"ipv6", "^(?:(?:" TOKAMAK_H ":){7}" TOKAMAK_H "|(?:" TOKAMAK_H ":){1,7}:|(?:" TOKAMAK_H ":){1,6}:" TOKAMAK_H
             "|(?:" TOKAMAK_H ":){1,5}(?::" TOKAMAK_H "){1,2}|(?:" TOKAMAK_H ":){1,4}(?::" TOKAMAK_H
             "){1,3}|(?:" TOKAMAK_H ":){1,3}(?::" TOKAMAK_H "){1,4}|(?:" TOKAMAK_H ":){1,2}(?::" TOKAMAK_H
             "){1,5}|" TOKAMAK_H ":(?::" TOKAMAK_H "){1,6}|:(?:(?::" TOKAMAK_H "){1,7}|:))$"},
    {"uri",
     "^[a-z][a-z0-9+.-]*://" TOKAMAK_HOST "(?::[1-9]\\d{0,3})?(?:/" TOKAMAK_PATH ")*(?:\\?" TOKAMAK_PATH
     ")?(?:#" TOKAMAK_PATH ")?$",
     1000},
});

}  // namespace

const Format* find_format(std::string_view format) {
  if (format == "iri" || format == "url" || format == "uri-reference") format = "uri";
  if (format == "idn-email") format = "email";
  for (const Format& f : kFormats)
    if (f.name == format) return &f;
  return nullptr;
}

}  // namespace tokamak::grammar
