/* post_processor: TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel (which only moves offsets), and their sequences. */
#include "text/post_processor.h"

#include "base/check.h"
#include "text/config.h"

#define SPECIALS_MAX 64u

void post_processor_deinit(struct post_processor *post) {
    token_list_deinit(&post->before);
    token_list_deinit(&post->behind);
}

static enum status append_id(const json_t *id, struct token_list *list, struct error *err) {
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= UINT32_MAX)
        return error_set(err, STATUS_CORRUPT, "post-processor: a token id is not a whole number");
    if (list->count == SPECIALS_MAX)
        return error_set(err, STATUS_UNSUPPORTED, "post-processor: more than %u special tokens", SPECIALS_MAX);
    return token_list_append(list, (uint32_t)json_integer_value(id), err);
}

/* The ids of template item {"SpecialToken": {"id": name}}. */
static enum status append_special(const json_t *config, const json_t *item, struct token_list *list, struct error *err) {
    struct text name;
    TRY(config_text(item, "id", (struct text){"", 0}, &name, err));
    const json_t *special = json_object_getn(json_object_get(config, "special_tokens"), name.data, name.size_bytes);
    const json_t *ids = json_object_get(special, "ids");
    if (!json_is_array(ids))
        return error_set(err, STATUS_CORRUPT, "TemplateProcessing: the special token \"%.*s\" has no ids", TEXT_ARGUMENTS(name));
    size_t index;
    json_t *id;
    json_array_foreach(ids, index, id) TRY(append_id(id, list, err));
    return STATUS_OK;
}

static enum status parse_template(struct post_processor *post, const json_t *config, struct error *err) {
    const json_t *single = json_object_get(config, "single");
    int side = 0;
    size_t index;
    json_t *item;
    json_array_foreach(single, index, item) {
        if (json_object_get(item, "Sequence")) {
            if (side++ > 0)
                return error_set(err, STATUS_UNSUPPORTED, "TemplateProcessing: the text stands twice in the template");
        } else {
            TRY(append_special(config, json_object_get(item, "SpecialToken"), side == 0 ? &post->before : &post->behind, err));
        }
    }
    return side == 1 ? STATUS_OK
                     : error_set(err, STATUS_UNSUPPORTED, "TemplateProcessing: the template \"single\" has no place for the text");
}

/* "cls": ["<s>", 0] in front, "sep": ["</s>", 2] behind. */
static enum status parse_bert(struct post_processor *post, const json_t *config, struct error *err) {
    TRY(append_id(json_array_get(json_object_get(config, "cls"), 1), &post->before, err));
    return append_id(json_array_get(json_object_get(config, "sep"), 1), &post->behind, err);
}

static enum status add_processor(struct post_processor *post, const json_t *config, unsigned depth, struct error *err) {
    struct text type = config_type(config);
    if (text_is(type, "Sequence")) {
        size_t index;
        json_t *part;
        if (depth == CONFIG_DEPTH_MAX)
            return error_set(err, STATUS_UNSUPPORTED, "post-processors nested deeper than %u", CONFIG_DEPTH_MAX);
        json_array_foreach(json_object_get(config, "processors"), index, part) TRY(add_processor(post, part, depth + 1, err));
        return STATUS_OK;
    }
    if (text_is(type, "ByteLevel"))
        return STATUS_OK;
    if (post->before.count + post->behind.count > 0)
        return error_set(err, STATUS_UNSUPPORTED, "a second post-processor that adds tokens (\"%.*s\") is not supported",
                         TEXT_ARGUMENTS(type));
    if (text_is(type, "TemplateProcessing"))
        return parse_template(post, config, err);
    if (text_is(type, "BertProcessing") || text_is(type, "RobertaProcessing"))
        return parse_bert(post, config, err);
    return error_set(err, STATUS_UNSUPPORTED, "the post-processor \"%.*s\" is not supported", TEXT_ARGUMENTS(type));
}

enum status post_processor_init(struct post_processor *post, const json_t *config, struct error *err) {
    CHECK(post != NULL);
    *post = (struct post_processor){0};
    return config && !json_is_null(config) ? add_processor(post, config, 0, err) : STATUS_OK;
}
