/* reply_markers: the table. Rows are searched in order: a row with more special signs stands before one with common signs. */
#include "text/reply_markers.h"

#include <string.h>

#include "base/check.h"
#include "text/reply_literal.h"

#define THINK .reasoning_open = "<think>", .reasoning_close = "</think>"

const struct reply_family reply_families[] = {
    {
        .name = "gpt_oss",
        .engine = REPLY_HARMONY,
        .end_of_turn = {"<|return|>", "<|call|>"},
        .signs = {"<|channel|>", "<|message|>"},
    },
    {
        .name = "functionary_v3_2",
        .engine = REPLY_RECIPIENTS,
        .end_of_turn = {"<|eot_id|>"},
        .signs = {">>>all", ">>>${recipient}"},
    },
    {
        .name = "functionary_v3_1",
        .section_open = "<function=",
        .items = {"%n>~%j~</function>"},
        .tail = REPLY_TAIL_CODE,
        .end_of_turn = {"<|eom_id|>", "<|eot_id|>"},
        .signs = {"<function=", "<|python_tag|>"},
    },
    {
        .name = "firefunction",
        .section_open = "functools[",
        .section_overlap = 1,
        .items = {"%c"},
        .end_of_turn = {"<|eot_id|>"},
        .signs = {"functools["},
    },
    {
        .name = "llama3",
        .engine = REPLY_WHOLE_JSON,
        .tail = REPLY_TAIL_CALLS,
        .end_of_turn = {"<|eot_id|>", "<|eom_id|>"},
        .signs = {"<|start_header_id|>", "Respond in the format {\"name\": function name"},
    },
    {
        .name = "minimax_m2",
        THINK,
        .section_open = "<minimax:tool_call>",
        .section_close = "</minimax:tool_call>",
        .items = {"<invoke name=\"%n\">"},
        .parameter = "<parameter name=\"%k\">%v</parameter>",
        .item_end = "</invoke>",
        .end_of_turn = {"[e~["},
        .signs = {"<minimax:tool_call>"},
    },
    {
        .name = "seed_oss",
        .reasoning_open = "<seed:think>",
        .reasoning_close = "</seed:think>",
        .section_open = "<seed:tool_call>",
        .section_close = "</seed:tool_call>",
        .items = {"<function=%n>"},
        .parameter = "<parameter=%k>%v</parameter>",
        .item_end = "</function>",
        .end_of_turn = {"<seed:eos>"},
        .signs = {"<seed:tool_call>"},
    },
    {
        .name = "deepseek_dsml_v4",
        THINK,
        .section_open = "<｜DSML｜tool_calls>",
        .section_close = "</｜DSML｜tool_calls>",
        .items = {"<｜DSML｜invoke name=\"%n\">"},
        .parameter = "<｜DSML｜parameter name=\"%k\" string=\"%s\">%v</｜DSML｜parameter>",
        .item_end = "</｜DSML｜invoke>",
        .end_of_turn = {"<｜end▁of▁sentence｜>"},
        .signs = {"｜DSML｜", "tool_calls>"},
        .absent = "function_calls>",
    },
    {
        .name = "deepseek_dsml",
        THINK,
        .section_open = "<｜DSML｜function_calls>",
        .section_close = "</｜DSML｜function_calls>",
        .items = {"<｜DSML｜invoke name=\"%n\">"},
        .parameter = "<｜DSML｜parameter name=\"%k\" string=\"%s\">%v</｜DSML｜parameter>",
        .item_end = "</｜DSML｜invoke>",
        .end_of_turn = {"<｜end▁of▁sentence｜>"},
        .signs = {"｜DSML｜"},
    },
    {
        .name = "deepseek_r1",
        THINK,
        .section_open = "<｜tool▁calls▁begin｜>",
        .section_close = "<｜tool▁calls▁end｜>",
        .items = {"<｜tool▁call▁begin｜>function<｜tool▁sep｜>%n~```json~%j~```~<｜tool▁call▁end｜>",
                  "<｜tool▁call▁begin｜>%n<｜tool▁sep｜>~%j~<｜tool▁call▁end｜>"},
        .end_of_turn = {"<｜end▁of▁sentence｜>"},
        .signs = {"<｜tool▁calls▁begin｜>", "```json"},
    },
    {
        .name = "deepseek_v3_1",
        THINK,
        .section_open = "<｜tool▁calls▁begin｜>",
        .section_close = "<｜tool▁calls▁end｜>",
        .items = {"<｜tool▁call▁begin｜>%n<｜tool▁sep｜>~%j~<｜tool▁call▁end｜>"},
        .end_of_turn = {"<｜end▁of▁sentence｜>"},
        .signs = {"<｜tool▁calls▁begin｜>"},
    },
    {
        .name = "deepseek_r1", /* distilled models: no calls in the template */
        THINK,
        .section_open = "<｜tool▁calls▁begin｜>",
        .section_close = "<｜tool▁calls▁end｜>",
        .items = {"<｜tool▁call▁begin｜>function<｜tool▁sep｜>%n~```json~%j~```~<｜tool▁call▁end｜>",
                  "<｜tool▁call▁begin｜>%n<｜tool▁sep｜>~%j~<｜tool▁call▁end｜>"},
        .end_of_turn = {"<｜end▁of▁sentence｜>"},
        .signs = {"<｜Assistant｜>"},
    },
    {
        .name = "kimi",
        THINK,
        .section_open = "<|tool_calls_section_begin|>",
        .section_close = "<|tool_calls_section_end|>",
        .items = {"<|tool_call_begin|>~%i~<|tool_call_argument_begin|>~%j~<|tool_call_end|>"},
        .end_of_turn = {"<|im_end|>"},
        .signs = {"<|im_middle|>"},
    },
    {
        .name = "command_r7b",
        .reasoning_open = "<|START_THINKING|>",
        .reasoning_close = "<|END_THINKING|>",
        .section_open = "<|START_ACTION|>",
        .section_close = "<|END_ACTION|>",
        .items = {"%c"},
        .wrapper_open = {"<|START_RESPONSE|>", "<|START_TEXT|>"},
        .wrapper_close = {"<|END_RESPONSE|>", "<|END_TEXT|>"},
        .end_of_turn = {"<|END_OF_TURN_TOKEN|>"},
        .signs = {"<|START_ACTION|>"},
    },
    {
        .name = "command_r_plus",
        .section_open = "Action:\n```json\n",
        .section_close = "```",
        .items = {"%c"},
        .no_call = "directly_answer",
        .end_of_turn = {"<|END_OF_TURN_TOKEN|>"},
        .signs = {"<|CHATBOT_TOKEN|>", "directly-answer"},
    },
    {
        .name = "apertus",
        .reasoning_open = "<|inner_prefix|>",
        .reasoning_close = "<|inner_suffix|>",
        .section_open = "<|tools_prefix|>",
        .section_close = "<|tools_suffix|>",
        .items = {"%a"},
        .end_of_turn = {"<|assistant_end|>"},
        .signs = {"<|tools_prefix|>"},
    },
    {
        .name = "gemma4",
        .reasoning_open = "<|channel>thought\n",
        .reasoning_close = "<channel|>",
        .section_open = "<|tool_call>",
        .section_close = "<tool_call|>",
        .items = {"call:%n%g"},
        .end_of_turn = {"<turn|>", "<|tool_response>"},
        .signs = {"<|tool_call>call:"},
    },
    {
        .name = "lfm2",
        .section_open = "<|tool_call_start|>",
        .section_close = "<|tool_call_end|>",
        .items = {"%p"},
        .end_of_turn = {"<|im_end|>"},
        .signs = {"<|tool_list_start|>"},
    },
    {
        .name = "lfm2", /* later templates */
        .section_open = "<|tool_call_start|>",
        .section_close = "<|tool_call_end|>",
        .items = {"%p"},
        .end_of_turn = {"<|im_end|>"},
        .signs = {"List of tools: ", "<|im_start|>"},
    },
    {
        .name = "apriel",
        .reasoning_open = "Here are my reasoning steps:\n",
        .reasoning_close = "[BEGIN FINAL RESPONSE]",
        .section_open = "<tool_calls>",
        .section_close = "</tool_calls>",
        .items = {"%c"},
        .wrapper_close = {"[END FINAL RESPONSE]"},
        .end_of_turn = {"<|end|>"},
        .signs = {"<tool_calls>", "<|end|>"},
    },
    {
        .name = "hunyuan",
        THINK,
        .section_open = "<tool_calls>",
        .section_close = "</tool_calls>",
        .items = {"<tool_call>~%n~```json~%j~```~</tool_call>"},
        .wrapper_open = {"<answer>"},
        .wrapper_close = {"</answer>"},
        .end_of_turn = {"<|eos|>"},
        .signs = {"<tool_calls>", "```json"},
    },
    {
        .name = "gigachat3_1",
        .section_open = "<|function_call|>",
        .items = {"%c"},
        .end_of_turn = {"<|message_sep|>", "</s>"},
        .signs = {"<|function_call|>"},
    },
    {
        .name = "gigachat3",
        .section_open = "function call<|role_sep|>",
        .items = {"%c"},
        .end_of_turn = {"<|message_sep|>", "</s>"},
        .signs = {"<|role_sep|>"},
    },
    {
        .name = "mirothinker",
        THINK,
        .section_open = "<use_mcp_tool>",
        .section_close = "</use_mcp_tool>",
        .items = {"<server_name>%x</server_name>~<tool_name>%n</tool_name>~<arguments>~%j~</arguments>"},
        .end_of_turn = {"<|im_end|>"},
        .signs = {"<use_mcp_tool>"},
    },
    {
        .name = "internlm",
        THINK,
        .section_open = "<|action_start|><|plugin|>",
        .section_close = "<|action_end|>",
        .items = {"%c"},
        .end_of_turn = {"<|im_end|>"},
        .signs = {"<|action_start|>"},
    },
    {
        .name = "nemotron_v2",
        THINK,
        .section_open = "<TOOLCALL>",
        .section_close = "</TOOLCALL>",
        .items = {"%c"},
        .end_of_turn = {"<SPECIAL_12>"},
        .signs = {"<TOOLCALL>"},
    },
    {
        .name = "mistral_args",
        .reasoning_open = "[THINK]",
        .reasoning_close = "[/THINK]",
        .section_open = "[TOOL_CALLS]",
        .items = {"%c", "%n[CALL_ID]%i[ARGS]~%j", "%n[ARGS]~%j"},
        .end_of_turn = {"</s>"},
        .signs = {"[TOOL_CALLS]", "[ARGS]"},
    },
    {
        .name = "mistral_list",
        .section_open = "[TOOL_CALLS]",
        .items = {"%c", "%n[CALL_ID]%i[ARGS]~%j", "%n[ARGS]~%j"},
        .end_of_turn = {"</s>"},
        .signs = {"[TOOL_CALLS]"},
    },
    {
        .name = "granite",
        THINK,
        .section_open = "<|tool_call|>",
        .items = {"%c"},
        .wrapper_open = {"<response>"},
        .wrapper_close = {"</response>"},
        .end_of_turn = {"<|end_of_text|>"},
        .signs = {"<|start_of_role|>"},
    },
    {
        .name = "phi4_mini",
        .section_open = "<|tool_call|>",
        .section_close = "<|/tool_call|>",
        .items = {"%c"},
        .end_of_turn = {"<|end|>"},
        .signs = {"<|/tool_call|>"},
    },
    {
        .name = "glm",
        THINK,
        .section_open = "<tool_call>",
        .section_close = "</tool_call>",
        .items = {"%n"},
        .parameter = "<arg_key>%k</arg_key>~<arg_value>%v</arg_value>",
        .end_of_turn = {"<|user|>", "<|observation|>", "<|endoftext|>"},
        .signs = {"<arg_key>"},
    },
    {
        .name = "qwen3_coder",
        THINK,
        .section_open = "<tool_call>",
        .section_close = "</tool_call>",
        .items = {"<function=%n>"},
        .parameter = "<parameter=%k>%v</parameter>",
        .item_end = "</function>",
        .trim_newline = true,
        .end_of_turn = {"<|im_end|>", "<|endoftext|>", "<sep>"},
        .signs = {"<tool_call>", "<function="},
    },
    {
        .name = "hermes",
        THINK,
        .section_open = "<tool_call>",
        .section_close = "</tool_call>",
        .items = {"%c"},
        .end_of_turn = {"<|im_end|>", "<|endoftext|>", "<sep>"},
        .signs = {"<tool_call>"},
    },
    {
        .name = "hermes", /* ChatML without tools: reasoning alone can be met */
        THINK,
        .section_open = "<tool_call>",
        .section_close = "</tool_call>",
        .items = {"%c"},
        .end_of_turn = {"<|im_end|>", "<|endoftext|>"},
        .signs = {"<|im_start|>"},
    },
    {
        .name = "think", /* reasoning and no marks of calls that are known */
        THINK,
        .end_of_turn = {"<|end|>", "<end_of_turn>"},
        .signs = {"<think>"},
    },
    {
        .name = "plain",
        .end_of_turn = {"<|end|>", "<end_of_turn>"},
    },
};
const size_t reply_family_count = sizeof reply_families / sizeof *reply_families;

const struct reply_family *reply_family_find(struct text name) {
    for (size_t i = 0; i < reply_family_count; i++)
        if (text_is(name, reply_families[i].name))
            return &reply_families[i];
    return NULL;
}

static bool holds(struct text text, const char *part) { return memmem(text.data, text.size_bytes, part, strlen(part)) != NULL; }

const struct reply_family *reply_family_detect(struct text template_source) {
    for (size_t i = 0; i + 1 < reply_family_count; i++) {
        const struct reply_family *family = &reply_families[i];
        bool fits = family->signs[0] != NULL && !(family->absent && holds(template_source, family->absent));
        for (size_t k = 0; fits && k < sizeof family->signs / sizeof *family->signs && family->signs[k]; k++)
            fits = holds(template_source, family->signs[k]);
        if (fits)
            return family;
    }
    return &reply_families[reply_family_count - 1];
}

bool reply_reasoning_opened(const struct reply_family *family, struct text prompt) {
    if (!family->reasoning_open)
        return false;
    struct text open = text_of(family->reasoning_open);
    while (open.size_bytes > 0 && open.data[open.size_bytes - 1] == '\n')
        open.size_bytes--;
    while (prompt.size_bytes > 0 && reply_skip_space(prompt, prompt.size_bytes - 1) == prompt.size_bytes)
        prompt.size_bytes--;
    return text_ends_with(prompt, open);
}
