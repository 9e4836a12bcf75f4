#include "chat/call_parser.h"

#include "chat/call_reader.h"

namespace tokamak {

CallParser::CallParser(const CallFormat& format, const ParameterTypes& types)
    : reader_(std::make_unique<CallReader>(format, types)) {}
CallParser::~CallParser() = default;
CallParser::CallParser(CallParser&&) noexcept = default;
CallParser& CallParser::operator=(CallParser&&) noexcept = default;

void CallParser::push(std::string_view text, std::vector<CallEvent>& events) { reader_->push(text, events); }
void CallParser::finish(std::vector<CallEvent>& events) { reader_->finish(events); }
bool CallParser::done() const { return reader_->done(); }
std::string_view CallParser::raw() const { return reader_->raw(); }
std::string_view CallParser::rest() const { return reader_->rest(); }

}  // namespace tokamak
