// How a template writes the values of a call's parameters. Internal to reply_format.
#pragma once

#include "chat/reply_format.h"
#include "chat/reply_probe.h"

namespace tokamak {

// Sets what `format`, of which the frame of parameters is known, says of values: json_middle, text_open and text_close,
// item_key, raw_quote. What a probe does not show stays empty.
void find_value_spelling(const ReplyProbe& probe, CallFormat& format);

}  // namespace tokamak
