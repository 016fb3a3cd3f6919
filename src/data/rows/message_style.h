// What a message may hold in two ways, and which of them a chat template understands: text as a string or as
// a list of parts, the arguments of a tool call as an object or as JSON text.
#pragma once

#include "io/json.h"
#include "text/chat/chat_template.h"

namespace snug {

struct MessageStyle {
  bool takes_parts = false;           // content may be [{"type": "text", "text": ...}]
  bool wants_arguments_text = false;  // the arguments of a tool call must be a string
};

// Found out by rendering small conversations: what a template understands, it writes as it does the other
// way.
MessageStyle message_style(const ChatTemplate& chat_template);

// The same messages as such a template takes them. Text parts become one string where it wants strings, and
// in answers, which are found in the rendered text by what they say.
Json styled_messages(const Json& messages, const MessageStyle& style);

}  // namespace snug
