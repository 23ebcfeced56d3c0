/*
 * jinja_value: Python's values as templates see them, allocated in the arena of a run, and the builder that makes strings.
 *
 * Errors     sticky: jinja_fail records the first error in the run and gives none; every function is harmless in a failed run, and loops
 *            stop by asking run->failed. Constructors return NULL when the run's memory is spent; all others take NULL for "nothing".
 * Trust      a string is wholly trusted, wholly data, or mixed: then `marks` has one byte per byte of text.
 * Strings    valid UTF-8; `length` counts code points, as Python does. Immutable.
 */
#pragma once

#include "base/arena.h"
#include "text/jinja.h"

enum jinja_kind {
    JINJA_ABSENT, /* an argument that was not given; never seen by templates */
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_BIG, /* an integer that needs more than 64 bits */
    JINJA_FLOAT,
    JINJA_STRING,
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_DICT,
    JINJA_RANGE,
    JINJA_ITERATOR, /* a generator: is read once */
    JINJA_VIEW,     /* dict.keys(), values(), items() */
    JINJA_NAMESPACE,
    JINJA_MACRO,
    JINJA_LOOP,
    JINJA_NATIVE, /* a function or bound method written in C */
    JINJA_BLOCK,  /* self.name */
    JINJA_SELF,
    JINJA_CYCLER,
    JINJA_JOINER,
};

enum jinja_trust { JINJA_DATA, JINJA_TRUSTED, JINJA_MIXED };

struct jinja_value {
    enum jinja_kind kind;
    union {
        bool boolean;
        int64_t integer;
        double number;
        const struct jinja_big *big;
        const struct jinja_string *string;
        struct jinja_list *list; /* LIST, TUPLE, ITERATOR */
        struct jinja_dict *dict; /* DICT, NAMESPACE */
        const struct jinja_missing *missing;
        const struct jinja_range *range;
        const struct jinja_view *view;
        const struct jinja_native *native;
        struct jinja_macro *macro;
        struct jinja_loop *loop;
        struct jinja_cycler *cycler; /* CYCLER, JOINER */
        const struct jinja_node *block;
    };
};

struct jinja_string {
    const char *data;
    size_t size_bytes, length;
    const uint8_t *marks; /* when mixed: JINJA_DATA or JINJA_TRUSTED per byte */
    uint8_t trust;        /* enum jinja_trust */
    bool markup;          /* result of safe or escape: escapes what is joined to it */
};

struct jinja_list {
    struct jinja_value *items;
    size_t count, capacity;
    size_t position; /* of an ITERATOR */
    bool group;      /* tuple of groupby: .grouper, .list */
};

struct jinja_dict { /* keeps insertion order */
    struct jinja_entry {
        struct jinja_value key, value;
        uint64_t hash;
        bool removed;
    } * entries;
    size_t used, capacity, live; /* used counts removed entries too */
    uint32_t *slots;             /* open addressing, entry + 1; NULL while small */
    size_t slot_count;
};

struct jinja_missing { /* why a value is undefined; NULL pointer in the value: no words */
    const char *message;
    bool security; /* SecurityError instead of UndefinedError */
};

struct jinja_range {
    int64_t start, stop, step, count;
};

struct jinja_view {
    struct jinja_dict *dict;
    enum { JINJA_KEYS, JINJA_VALUES, JINJA_ITEMS } which;
};

struct jinja_cycler {
    struct jinja_list *items;
    size_t position;
    struct jinja_value separator; /* JOINER */
    bool used;
};

/* Arguments of a call, before they are bound to parameters. */
struct jinja_arguments {
    const struct jinja_value *values;
    size_t count;
    const struct jinja_string *const *names; /* keyword arguments */
    const struct jinja_value *named;
    size_t named_count;
};

/* a[0] is the input of a filter or test, or self of a method; a[1..] are the bound parameters (ABSENT when not given). */
typedef struct jinja_value jinja_function(struct jinja_run *run, const struct jinja_value *a, const struct jinja_arguments *raw);

struct jinja_native_row {
    const char *name;
    const char *parameters; /* "old,new,count", at most JINJA_PARAMETERS_MAX; NULL: takes `raw` */
    unsigned required;      /* of the parameters */
    jinja_function *call;
};
#define JINJA_PARAMETERS_MAX 7

struct jinja_native {
    const struct jinja_native_row *row;
    struct jinja_value self;
};

struct jinja_frame { /* one scope; lookups go to the parent */
    struct jinja_frame *parent;
    struct jinja_variable {
        struct text name;
        struct jinja_value value;
    } * variables;
    uint32_t count, capacity;
    bool captured; /* a macro or recursive loop refers to it: it may not be used again for the next iteration */
};

struct jinja_run {
    struct arena *arena;
    struct jinja_limits limits;
    const struct jinja_template *template;
    struct jinja_frame root, top; /* the caller's variables; the template's outermost scope */
    bool failed, has_clock;
    unsigned depth;
    uint64_t steps;
    uint32_t line, column; /* of the statement or output that runs now */
    struct tm clock;
    struct jinja_error error;
};

/* Records the first error at the current place and returns none. */
struct jinja_value jinja_fail(struct jinja_run *run, enum jinja_failure failure, const char *format, ...) PRINTF_LIKE(3, 4);
struct jinja_value jinja_fail_memory(struct jinja_run *run);
/* Counts work; false (and failed) when the steps are spent. */
bool jinja_step(struct jinja_run *run, uint64_t count);
/* One level deeper; false (and failed) when too deep. Pair with jinja_leave also when false. */
bool jinja_enter(struct jinja_run *run);
void jinja_leave(struct jinja_run *run);
void *jinja_alloc(struct jinja_run *run, size_t size_bytes); /* NULL and failed when memory is spent */

/* Constructors. */
#define JINJA_NOTHING ((struct jinja_value){.kind = JINJA_NONE})
static inline struct jinja_value jinja_bool(bool b) { return (struct jinja_value){.kind = JINJA_BOOL, .boolean = b}; }
static inline struct jinja_value jinja_int(int64_t i) { return (struct jinja_value){.kind = JINJA_INT, .integer = i}; }
static inline struct jinja_value jinja_size(size_t n) { return jinja_int((int64_t)n); }
static inline struct jinja_value jinja_float(double d) { return (struct jinja_value){.kind = JINJA_FLOAT, .number = d}; }
struct jinja_value jinja_string_value(const struct jinja_string *string); /* NULL: none */
struct jinja_value jinja_list_value(enum jinja_kind kind, struct jinja_list *list);
struct jinja_value jinja_dict_value(struct jinja_dict *dict);
struct jinja_value jinja_undefined(struct jinja_run *run, bool security, const char *format, ...) PRINTF_LIKE(3, 4);
/* Copies the bytes. */
const struct jinja_string *jinja_string_new(struct jinja_run *run, const char *data, size_t size_bytes, enum jinja_trust trust);
struct jinja_value jinja_text(struct jinja_run *run, const char *terminated, enum jinja_trust trust);
/* Code points [begin, end) of a string; shares its bytes. */
const struct jinja_string *jinja_substring(struct jinja_run *run, const struct jinja_string *s, size_t begin, size_t end);
/* Bytes [begin, end), at code point borders; shares. */
const struct jinja_string *jinja_subbytes(struct jinja_run *run, const struct jinja_string *s, size_t begin, size_t end);
size_t jinja_byte_of(const struct jinja_string *s, size_t code_point); /* offset of a code point */
const struct jinja_string *jinja_as_markup(struct jinja_run *run, const struct jinja_string *s, bool markup);
struct jinja_list *jinja_list_new(struct jinja_run *run, size_t capacity);
void jinja_list_append(struct jinja_run *run, struct jinja_list *list, struct jinja_value value);
struct jinja_value jinja_pair(struct jinja_run *run, struct jinja_value a, struct jinja_value b); /* tuple */
struct jinja_value jinja_native_value(struct jinja_run *run, const struct jinja_native_row *row, struct jinja_value self);
struct jinja_value jinja_from_json(struct jinja_run *run, const json_t *json, enum jinja_trust trust, const char *const *trusted_words);

/* Dicts. Keys must be hashable: jinja_dict_set fails otherwise, jinja_dict_get gives NULL. */
struct jinja_dict *jinja_dict_new(struct jinja_run *run);
void jinja_dict_set(struct jinja_run *run, struct jinja_dict *dict, struct jinja_value key, struct jinja_value value);
struct jinja_value *jinja_dict_get(struct jinja_run *run, const struct jinja_dict *dict, struct jinja_value key);
struct jinja_value *jinja_dict_get_text(const struct jinja_dict *dict, struct text key);
bool jinja_dict_remove(struct jinja_run *run, struct jinja_dict *dict, struct jinja_value key);
bool jinja_hashable(struct jinja_value v);

/* Views of values. */
static inline struct text jinja_string_text(const struct jinja_string *s) {
    return s ? (struct text){s->data, s->size_bytes} : (struct text){"", 0};
}
static inline bool jinja_is_number(struct jinja_value v) {
    return v.kind == JINJA_BOOL || v.kind == JINJA_INT || v.kind == JINJA_BIG || v.kind == JINJA_FLOAT;
}
bool jinja_as_index(struct jinja_value v, int64_t *out); /* int or bool that fits 64 bits */
const char *jinja_type_name(struct jinja_value v);       /* "str", "NoneType", ...: Python's */
bool jinja_truth(struct jinja_value v);
/* -1: has none. */
int64_t jinja_length(struct jinja_value v);
/* Items as a list that the caller must not change; NULL (and failed) when v is not iterable. Reads an iterator to its end. */
struct jinja_list *jinja_items(struct jinja_run *run, struct jinja_value v);
bool jinja_iterable(struct jinja_value v);
bool jinja_equal(struct jinja_run *run, struct jinja_value a, struct jinja_value b);
/* a < b as Python orders; fails for types without order. */
bool jinja_less(struct jinja_run *run, struct jinja_value a, struct jinja_value b, const char *operator_name);

/* Variables of scopes. */
struct jinja_value *jinja_frame_find(struct jinja_frame *frame, struct text name); /* looks upwards; NULL: none */
void jinja_frame_set(struct jinja_run *run, struct jinja_frame *frame, struct text name, struct jinja_value value);

/* A string that grows. */
struct jinja_builder {
    struct jinja_run *run;
    char *data;
    uint8_t *marks; /* NULL while all bytes have one trust */
    size_t size_bytes, capacity_bytes, limit_bytes;
    uint8_t trust;
};
struct jinja_builder jinja_builder_start(struct jinja_run *run);
void jinja_put(struct jinja_builder *b, const char *data, size_t size_bytes, enum jinja_trust trust);
void jinja_put_text(struct jinja_builder *b, const char *terminated); /* trusted: punctuation of ours */
void jinja_put_string(struct jinja_builder *b, const struct jinja_string *s);
void jinja_put_bytes(struct jinja_builder *b, const struct jinja_string *s, size_t begin, size_t end); /* bytes [begin, end) of s */
void jinja_put_code_point(struct jinja_builder *b, uint32_t code_point, enum jinja_trust trust);
const struct jinja_string *jinja_builder_take(struct jinja_builder *b); /* shares the builder's memory: do not put afterwards */
/* Trust of the byte at `at`. */
static inline enum jinja_trust jinja_trust_at(const struct jinja_string *s, size_t at) {
    return (enum jinja_trust)(s->trust == JINJA_MIXED ? s->marks[at] : s->trust);
}
/* Next code point at *at (valid UTF-8), moves *at past it. */
uint32_t jinja_next_code_point(const char *data, size_t size_bytes, size_t *at);
