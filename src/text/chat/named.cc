// The chat templates that snug brings, for models that ship none. They mark the answers themselves.
#include <array>

#include "text/chat/chat_template.h"

namespace snug {

namespace {

struct NamedTemplate {
  std::string_view name;
  std::string_view source;
};

constexpr std::string_view kAlpaca = R"({{- bos_token }}
{%- set opening = 'Below is an instruction that describes a task. Write a response that appropriately completes the request.' %}
{%- set turns = messages %}
{%- if messages and messages[0].role == 'system' %}
    {%- set opening = messages[0].content %}
    {%- set turns = messages[1:] %}
{%- endif %}
{{- opening }}
{%- for message in turns %}
    {%- if message.role == 'user' %}
        {{- '\n\n### Instruction:\n' ~ message.content ~ '\n\n### Response:\n' }}
    {%- elif message.role == 'assistant' %}
        {%- generation %}
            {{- message.content ~ (eos_token or '') }}
        {%- endgeneration %}
    {%- else %}
        {{- raise_exception('alpaca knows the roles system (first), user and assistant, not ' ~ message.role) }}
    {%- endif %}
{%- endfor %})";

constexpr std::string_view kChatml = R"({%- for message in messages %}
    {{- '<|im_start|>' ~ message.role ~ '\n' }}
    {%- if message.role == 'assistant' %}
        {%- generation %}
            {{- (message.content or '') ~ '<|im_end|>' }}
        {%- endgeneration %}
        {{- '\n' }}
    {%- else %}
        {{- (message.content or '') ~ '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %})";

constexpr std::string_view kLlama2 = R"({%- set bos = bos_token or '<s>' %}
{%- set eos = eos_token or '</s>' %}
{%- set system = '' %}
{%- set turns = messages %}
{%- if messages and messages[0].role == 'system' %}
    {%- set system = '<<SYS>>\n' ~ messages[0].content ~ '\n<</SYS>>\n\n' %}
    {%- set turns = messages[1:] %}
{%- endif %}
{%- for message in turns %}
    {%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('llama-2 needs the roles user and assistant in turns, after an optional system message') }}
    {%- endif %}
    {%- if message.role == 'user' %}
        {{- bos ~ '[INST] ' ~ (system if loop.first else '') ~ message.content.strip() ~ ' [/INST]' }}
    {%- elif message.role == 'assistant' %}
        {%- generation %}
            {{- ' ' ~ message.content.strip() ~ ' ' ~ eos }}
        {%- endgeneration %}
    {%- else %}
        {{- raise_exception('llama-2 knows the roles system (first), user and assistant, not ' ~ message.role) }}
    {%- endif %}
{%- endfor %})";

constexpr std::string_view kLlama3 = R"({{- bos_token or '<|begin_of_text|>' }}
{%- for message in messages %}
    {{- '<|start_header_id|>' ~ message.role ~ '<|end_header_id|>\n\n' }}
    {%- if message.role == 'assistant' %}
        {%- generation %}
            {{- message.content | trim ~ '<|eot_id|>' }}
        {%- endgeneration %}
    {%- else %}
        {{- message.content | trim ~ '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %})";

constexpr std::string_view kMistral = R"({{- bos_token or '<s>' }}
{%- set system = '' %}
{%- set turns = messages %}
{%- if messages and messages[0].role == 'system' %}
    {%- set system = messages[0].content ~ '\n\n' %}
    {%- set turns = messages[1:] %}
{%- endif %}
{%- for message in turns %}
    {%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('mistral needs the roles user and assistant in turns, after an optional system message') }}
    {%- endif %}
    {%- if message.role == 'user' %}
        {{- '[INST] ' ~ (system if loop.first else '') ~ message.content ~ '[/INST]' }}
    {%- elif message.role == 'assistant' %}
        {%- generation %}
            {{- ' ' ~ message.content | trim ~ (eos_token or '</s>') }}
        {%- endgeneration %}
    {%- else %}
        {{- raise_exception('mistral knows the roles system (first), user and assistant, not ' ~ message.role) }}
    {%- endif %}
{%- endfor %})";

constexpr std::string_view kZephyr = R"({%- set eos = eos_token or '</s>' %}
{%- for message in messages %}
    {{- '<|' ~ message.role ~ '|>\n' }}
    {%- if message.role == 'assistant' %}
        {%- generation %}
            {{- message.content ~ eos }}
        {%- endgeneration %}
        {{- '\n' }}
    {%- else %}
        {{- message.content ~ eos ~ '\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>\n' }}
{%- endif %})";

constexpr std::array<NamedTemplate, 6> kTemplates = {{{"alpaca", kAlpaca},
                                                      {"chatml", kChatml},
                                                      {"llama-2", kLlama2},
                                                      {"llama-3", kLlama3},
                                                      {"mistral", kMistral},
                                                      {"zephyr", kZephyr}}};

}  // namespace

std::vector<std::string> named_chat_templates() {
  std::vector<std::string> names;
  for (const NamedTemplate& known : kTemplates) {
    names.emplace_back(known.name);
  }
  return names;
}

std::optional<std::string_view> named_chat_template_source(std::string_view name) {
  for (const NamedTemplate& known : kTemplates) {
    if (known.name == name) {
      return known.source;
    }
  }
  return std::nullopt;
}

}  // namespace snug
