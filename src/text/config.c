/* config: typed look-ups in jansson objects. */
#include "text/config.h"

#include "base/check.h"
#include "text/pattern.h"

static enum status wrong_type(const json_t *object, const char *key, const char *expected, struct error *err) {
    struct text type = config_type(object);
    return error_set(err, STATUS_CORRUPT, "%.*s: \"%s\" is not %s", TEXT_ARGUMENTS(type), key, expected);
}

struct text config_type(const json_t *object) {
    const json_t *type = json_object_get(object, "type");
    return json_is_string(type) ? (struct text){json_string_value(type), json_string_length(type)} : (struct text){"", 0};
}

enum status config_text(const json_t *object, const char *key, struct text fallback, struct text *out, struct error *err) {
    const json_t *value = json_object_get(object, key);
    *out = fallback;
    if (!value || json_is_null(value))
        return STATUS_OK;
    if (!json_is_string(value))
        return wrong_type(object, key, "a text", err);
    *out = (struct text){json_string_value(value), json_string_length(value)};
    return STATUS_OK;
}

enum status config_bool(const json_t *object, const char *key, bool fallback, bool *out, struct error *err) {
    const json_t *value = json_object_get(object, key);
    *out = fallback;
    if (!value || json_is_null(value))
        return STATUS_OK;
    if (!json_is_boolean(value))
        return wrong_type(object, key, "true or false", err);
    *out = json_is_true(value);
    return STATUS_OK;
}

enum status config_u32(const json_t *object, const char *key, uint32_t fallback, uint32_t *out, struct error *err) {
    const json_t *value = json_object_get(object, key);
    *out = fallback;
    if (!value || json_is_null(value))
        return STATUS_OK;
    if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > UINT32_MAX)
        return wrong_type(object, key, "a whole number from 0 to 4294967295", err);
    *out = (uint32_t)json_integer_value(value);
    return STATUS_OK;
}

enum status config_pattern(const json_t *pattern, struct pattern **out, struct error *err) {
    CHECK(out != NULL);
    *out = NULL;
    const json_t *literal = json_object_get(pattern, "String"), *expression = json_object_get(pattern, "Regex");
    if (json_is_string(literal))
        return pattern_literal((struct text){json_string_value(literal), json_string_length(literal)}, out, err);
    if (json_is_string(expression))
        return pattern_compile((struct text){json_string_value(expression), json_string_length(expression)}, out, err);
    return error_set(err, STATUS_CORRUPT, "a pattern is neither {\"String\": ...} nor {\"Regex\": ...}");
}
