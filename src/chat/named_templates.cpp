// Chat templates of our own, written from the formats' published descriptions.
#include <algorithm>
#include <array>

#include "chat/chat_template.h"

namespace tokamak {

namespace {
constexpr std::string_view kChatml = R"({%- for message in messages %}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\n' }}
{%- endif %}
)";

// Gemma has no system role: its text goes in front of the first user turn.
constexpr std::string_view kGemma = R"({{- bos_token }}
{%- macro text_of(content) %}
    {%- if content is string %}
        {{- content | trim }}
    {%- else %}
        {%- for part in content if part.type == 'text' %}
            {{- part.text | trim }}
        {%- endfor %}
    {%- endif %}
{%- endmacro %}
{%- set ns = namespace(prefix='') %}
{%- set turns = messages %}
{%- if messages and messages[0].role in ['system', 'developer'] %}
    {%- set ns.prefix = text_of(messages[0].content) ~ '\n\n' %}
    {%- set turns = messages[1:] %}
{%- endif %}
{%- for message in turns %}
    {%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
    {%- endif %}
    {{- '<start_of_turn>' + ('model' if message.role == 'assistant' else message.role) + '\n' }}
    {{- ns.prefix if loop.first else '' }}
    {{- text_of(message.content) + '<end_of_turn>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<start_of_turn>model\n' }}
{%- endif %}
)";

constexpr std::string_view kLlama2 = R"({%- set ns = namespace(system='') %}
{%- set turns = messages %}
{%- if messages and messages[0].role == 'system' %}
    {%- set ns.system = '<<SYS>>\n' + messages[0].content + '\n<</SYS>>\n\n' %}
    {%- set turns = messages[1:] %}
{%- endif %}
{%- for message in turns %}
    {%- if message.role == 'user' %}
        {{- bos_token + '[INST] ' + (ns.system if loop.first else '') + message.content | trim + ' [/INST]' }}
    {%- elif message.role == 'assistant' %}
        {{- ' ' + message.content | trim + ' ' + eos_token }}
    {%- else %}
        {{- raise_exception('Only system, user and assistant roles are supported.') }}
    {%- endif %}
{%- endfor %}
)";

constexpr std::string_view kLlama3 = R"({{- bos_token }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' + message.content | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
)";

constexpr std::string_view kMistral = R"({{- bos_token }}
{%- set ns = namespace(system='', users=0) %}
{%- for message in messages %}
    {%- if message.role == 'system' %}
        {%- set ns.system = message.content + '\n\n' %}
    {%- elif message.role == 'user' %}
        {{- '[INST] ' + ns.system + message.content + ' [/INST]' }}
        {%- set ns.system = '' %}
    {%- elif message.role == 'assistant' %}
        {{- ' ' + message.content | trim + eos_token }}
    {%- else %}
        {{- raise_exception('Only system, user and assistant roles are supported.') }}
    {%- endif %}
{%- endfor %}
)";

constexpr std::string_view kPhi3 = R"({%- for message in messages %}
    {{- '<|' + message.role + '|>\n' + message.content + '<|end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>\n' }}
{%- endif %}
)";

constexpr std::string_view kZephyr = R"({%- for message in messages %}
    {{- '<|' + message.role + '|>\n' + message.content + eos_token + '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>\n' }}
{%- endif %}
)";

constexpr std::string_view kVicuna = R"({%- for message in messages %}
    {%- if message.role == 'system' %}
        {{- message.content + '\n\n' }}
    {%- elif message.role == 'user' %}
        {{- 'USER: ' + message.content + '\n' }}
    {%- else %}
        {{- 'ASSISTANT: ' + message.content + eos_token + '\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- 'ASSISTANT:' }}
{%- endif %}
)";

constexpr std::string_view kAlpaca = R"({%- for message in messages %}
    {%- if message.role == 'system' %}
        {{- message.content + '\n\n' }}
    {%- elif message.role == 'user' %}
        {{- '### Instruction:\n' + message.content + '\n\n' }}
    {%- else %}
        {{- '### Response:\n' + message.content + eos_token + '\n\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '### Response:\n' }}
{%- endif %}
)";

constexpr auto kTable = std::to_array<NamedTemplate>({
    {"alpaca", "Alpaca and its descendants", kAlpaca},
    {"chatml", "Qwen, SmolLM2, Hermes, Yi and many fine-tunes", kChatml},
    {"gemma", "Gemma 1 to 3", kGemma},
    {"llama2", "Llama 2 chat", kLlama2},
    {"llama3", "Llama 3.x", kLlama3},
    {"mistral", "Mistral 7B instruct, Mixtral", kMistral},
    {"phi3", "Phi-3, Phi-3.5", kPhi3},
    {"vicuna", "Vicuna", kVicuna},
    {"zephyr", "Zephyr, StableLM Zephyr", kZephyr},
});
}  // namespace

std::span<const NamedTemplate> named_templates() { return kTable; }

const NamedTemplate* find_named_template(std::string_view name) {
  const auto row = std::find_if(kTable.begin(), kTable.end(), [&](const NamedTemplate& t) { return t.name == name; });
  return row == kTable.end() ? nullptr : &*row;
}

}  // namespace tokamak
