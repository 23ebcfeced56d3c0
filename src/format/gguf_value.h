/*
 * gguf_value: one metadata value of a GGUF header, kept in a catalogue or skipped.
 *
 * Arrays are read twice: once over their lengths, so that one block of the exact size can be made, then for their bytes.
 */
#pragma once

#include "format/catalogue_internal.h"
#include "format/gguf_reader.h"

enum gguf_type { /* of metadata values */
                 GGUF_U8,
                 GGUF_I8,
                 GGUF_U16,
                 GGUF_I16,
                 GGUF_U32,
                 GGUF_I32,
                 GGUF_F32,
                 GGUF_BOOL,
                 GGUF_STRING,
                 GGUF_ARRAY,
                 GGUF_U64,
                 GGUF_I64,
                 GGUF_F64,
                 GGUF_TYPE_COUNT,
};

/*
 * Reads a value of the given type at the cursor. Texts and array blocks go into `catalogue`; NULL: scalars are returned, texts and
 * arrays are passed over and have no bytes. Arrays of arrays are passed over in either case, to a limited depth.
 */
MUST_CHECK enum status gguf_value_read(struct gguf_reader *r, uint32_t type, struct catalogue *catalogue, struct meta_value *out,
                                       struct error *err);
