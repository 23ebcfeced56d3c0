/* render_jsonl: turns lines into requests and results into lines. */
#include "text/render_jsonl.h"

#include <string.h>

#include "base/check.h"
#include "text/chat_encode.h"
#include "text/json_lines.h"

static json_t *out_of_memory(struct error *err) {
    error_set(err, STATUS_NO_MEMORY, "no memory for the answer");
    return NULL;
}

/* {source, context} */
static json_t *render_source(const struct render_jsonl_options *options, const json_t *line, struct error *err) {
    const json_t *source = json_object_get(line, "source");
    const char *name;
    json_t *value, *answer = NULL;
    struct jinja_error problem;
    struct jinja_template *template = NULL;
    struct jinja_run *run = NULL;
    struct jinja_limits limits = jinja_limits_default();
    struct jinja_output output;
    struct text text = {json_string_value(source), json_string_length(source)};
    if (jinja_run_create(&limits, &run, err) != STATUS_OK)
        return NULL;
    if (options->clock)
        jinja_set_clock(run, options->clock);
    json_object_foreach(json_object_get(line, "context"), name, value) jinja_set_json(run, name, value, NULL);
    if (jinja_compile(text, &template, &problem) == STATUS_OK && jinja_render(run, template, &output, &problem) == STATUS_OK) {
        answer = json_pack("{s:s%}", "text", output.text.data, output.text.size_bytes);
    } else {
        answer = json_lines_error(problem.message);
        if (answer && problem.line)
            json_object_set_new(answer, "line", json_integer(problem.line));
    }
    jinja_run_destroy(run);
    jinja_template_destroy(template);
    return answer ? answer : out_of_memory(err);
}

static json_t *ids_json(const struct tokenizer *tokenizer, const struct chat_prompt *prompt, struct error *err) {
    struct token_list list = {0};
    json_t *ids = json_array();
    if (chat_encode(tokenizer, prompt, NULL, &list, err) != STATUS_OK) {
        json_decref(ids);
        ids = NULL;
    }
    for (size_t i = 0; ids && i < list.count; i++)
        json_array_append_new(ids, json_integer(list.ids[i]));
    if (ids && json_array_size(ids) != list.count) {
        json_decref(ids);
        ids = out_of_memory(err);
    }
    token_list_deinit(&list);
    return ids;
}

/* kwargs without the special tokens, which go to `tokens`. */
static json_t *split_tokens(const json_t *kwargs, json_t *tokens) {
    json_t *variables = json_object(), *value;
    const char *name;
    json_object_foreach((json_t *)kwargs, name, value) {
        bool token = text_ends_with(text_of(name), TEXT("_token")) && json_is_string(value);
        if (json_object_set(token ? tokens : variables, name, value) == 0)
            continue;
        json_decref(variables);
        return NULL;
    }
    return variables;
}

static json_t *given(const json_t *line, const char *name) {
    json_t *value = json_object_get(line, name);
    return json_is_null(value) ? NULL : value;
}

static json_t *render_chat(const struct render_jsonl_options *options, const json_t *line, struct error *err) {
    json_t *tokens = json_object(), *variables = split_tokens(given(line, "kwargs"), tokens), *answer = NULL;
    json_t *documents = given(line, "documents") ? given(line, "documents") : json_object_get(variables, "documents");
    struct chat_request request = {
        .messages = given(line, "messages"),
        .tools = given(line, "tools"),
        .documents = documents,
        .variables = variables,
        .tokens = tokens,
        .add_generation_prompt = json_is_true(given(line, "add_generation_prompt")),
        .continue_final_message = json_is_true(given(line, "continue_final_message")),
        .clock = options->clock,
    };
    struct chat_prompt prompt = {0};
    if (!tokens || !variables)
        answer = out_of_memory(err);
    else if (chat_template_render(options->chat, &request, &prompt, err) == STATUS_OK) {
        answer = json_pack("{s:s%}", "text", prompt.text, prompt.size_bytes);
        json_t *ids = options->tokenizer ? ids_json(options->tokenizer, &prompt, err) : NULL;
        if (!answer)
            answer = out_of_memory(err);
        else if (options->tokenizer && (!ids || json_object_set(answer, "ids", ids) != 0)) {
            json_decref(answer);
            answer = NULL;
        }
        json_decref(ids);
    }
    chat_prompt_deinit(&prompt);
    json_decref(variables);
    json_decref(tokens);
    return answer;
}

static json_t *answer_line(void *context, const json_t *line, struct error *err) {
    const struct render_jsonl_options *options = context;
    if (json_is_string(json_object_get(line, "source")))
        return render_source(options, line, err);
    if (options->chat)
        return render_chat(options, line, err);
    error_set(err, STATUS_INVALID, "the line has no \"source\", and there is no --chat-template");
    return NULL;
}

enum status render_jsonl(const struct render_jsonl_options *options, FILE *in, FILE *out, struct error *err) {
    struct render_jsonl_options copy = *options;
    return json_lines_run(in, out, answer_line, &copy, err);
}
