/*
 * catalogue_internal: how the readers of both worlds fill a catalogue. Only files of src/format include it.
 *
 * A reader makes texts with catalogue_keep_text (the catalogue's arena), arrays with meta_array_create (heap blocks of their own, so
 * that catalogue_drop_arrays can free them), and hands entries to catalogue_add_tensor and catalogue_add_meta, which check them.
 */
#pragma once

#include "format/catalogue.h"

#define CATALOGUE_PATH_BYTES 4096

/* For printf "%.*s": names from files, cut so that the rest of an error text has room. */
#define SHOWN(text) ((int)((text).size_bytes > 160 ? 160 : (text).size_bytes)), ((text).data ? (text).data : "")

enum meta_array_format { /* of the items in memory */
                         META_ARRAY_U8,
                         META_ARRAY_I8,
                         META_ARRAY_U16,
                         META_ARRAY_I16,
                         META_ARRAY_U32,
                         META_ARRAY_I32,
                         META_ARRAY_F32,
                         META_ARRAY_BOOL,
                         META_ARRAY_U64,
                         META_ARRAY_I64,
                         META_ARRAY_F64,
                         META_ARRAY_TEXT, /* uint32 offsets[count + 1], then the bytes of all texts */
                         META_ARRAY_FORMAT_COUNT,
};

struct meta_array {
    enum meta_array_format format;
    uint64_t size_bytes; /* of data */
    _Alignas(8) uint8_t data[];
};

/* Bytes of one item; 4 (an offset) for texts. */
unsigned meta_array_item_bytes(enum meta_array_format format);
/* Block with size_bytes of unset data, or NULL. Freed by the catalogue once it was added, else by memory_free. */
struct meta_array *meta_array_create(enum meta_array_format format, uint64_t size_bytes);
/* A META_ARRAY value over the block, of at least one item; `element` of integer arrays is META_I64 when a negative item is there, else
 * META_U64. */
struct meta_value meta_array_value(const struct meta_array *array, uint64_t count);

/* An empty catalogue; path and directory are copied. */
MUST_CHECK enum status catalogue_create(enum catalogue_world world, const char *path, const char *directory, struct catalogue **out,
                                        struct error *err);

/* Copies the text (and a 0 behind it) into the catalogue. */
MUST_CHECK enum status catalogue_keep_text(struct catalogue *catalogue, struct text text, struct text *out, struct error *err);
/* Room for a text that the caller fills at once (size_bytes and a 0 behind it). */
MUST_CHECK enum status catalogue_keep_room(struct catalogue *catalogue, uint64_t size_bytes, char **out, struct error *err);

/* Room for `count` more tensors; the caller has checked count against the file's size. */
MUST_CHECK enum status catalogue_reserve_tensors(struct catalogue *catalogue, uint64_t count, struct error *err);
/*
 * Adds a tensor: name (kept), dtype, rank, shape, file and offset are given, the size is computed. Refuses a second one of the name, a
 * shape whose product overflows or whose rows are not whole blocks, and data outside the file.
 */
MUST_CHECK enum status catalogue_add_tensor(struct catalogue *catalogue, const struct file_set *files, const struct tensor_entry *tensor,
                                            struct error *err);
/* Adds a metadata entry; key and texts were kept, an array block becomes the catalogue's, also on failure. `source` names the file. */
MUST_CHECK enum status catalogue_add_meta(struct catalogue *catalogue, struct text key, const struct meta_value *value, const char *source,
                                          struct error *err);
/* Refuses tensors that share bytes of a file, and gives back spare memory. Called once, when all is added. */
MUST_CHECK enum status catalogue_finish(struct catalogue *catalogue, const struct file_set *files, struct error *err);
