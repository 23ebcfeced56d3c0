/*
 * split_walk: the walk of products of formats with one float term per run of 16 to 128 codes and no integer sub-scales (MLX affine, integer
 * groups, 4-bit floats with scales of their own, NVFP4), which AVX2 and AVX-512 share.
 *
 * Eight runs, one per lane of the result, are an octet. Activations are put into the order of the codes once for all rows of a call, and
 * what belongs to them alone (scales, sums) once for each lane; scales of a row become floats before its codes are multiplied. Then rows
 * go together in strips of SPLIT_ROWS that lie apart, each a part of the rows at hand: memory is read at several places at once, for which
 * the processor fetches more. Missing rows of a strip repeat its last one, missing runs of an octet have scales and activations of 0. Codes
 * of neither 4 nor 8 bits become bytes first, strip by strip. Long rows are cut into slabs, between which lanes wait in memory.
 *
 * A level brings SPLIT_PAIR (rows that share a vector of lanes), SPLIT_VECTOR (bytes of codes of a vector: what lies in the lower nibbles
 * of so many, then what lies in the upper ones, is the order of activations), SPLIT_LESS (taken off codes of 8 bits) and split_kernel.
 */
#pragma once

#include "base/check.h"
#include "dtype/block_layouts.h"
#include "kernel/avx2/run_terms.h"
#include "kernel/kernel.h"
#include "kernel/ref/int_groups.h"
#include "kernel/ref/ref.h"

#define SPLIT_RUNS 8
#define SPLIT_ROWS 4
#define SPLIT_TOKENS 4
#define SLAB_OCTETS 64
#define SLAB_BYTES 32768       /* of activations: columns times tokens */
#define SLAB_BYTE_COLS 8192    /* of codes that are made bytes */
#define ROWS_AT_HAND 128       /* whose lanes wait between slabs */
#define SPLIT_OCTET_BYTES 1024 /* of codes, at most */

enum split_layout {
    SPLIT_NIBBLES, /* neighbours in a byte */
    SPLIT_FP4,     /* the same, of 4-bit floats */
    SPLIT_BLOCKS,  /* NVFP4 */
    SPLIT_BYTES,
    SPLIT_LAYOUTS
};

struct split_format {
    enum split_layout layout;
    unsigned run, activation_block; /* elements of a float term; of an activation scale */
    unsigned bits;                  /* of a code as it lies in memory */
    int offset;                     /* of codes above their values, as the level takes them */
    uint8_t flip;                   /* of codes of 8 bits: bits that make them what the level takes */
    bool has_bias, has_zeros;       /* has_zeros: codes count from a zero point of their run instead of offset */
};

struct octet_activations { /* of one token: its lanes of an octet */
    float scale[SPLIT_RUNS], sum[SPLIT_RUNS];
    int32_t less[SPLIT_RUNS]; /* minus the sum, its lower 16 bits: less than these it has not */
};
struct octet_scales { /* of a strip */
    float d[SPLIT_ROWS * SPLIT_RUNS], m[SPLIT_ROWS * SPLIT_RUNS];
    int32_t zeros[SPLIT_ROWS * SPLIT_RUNS]; /* zero points or the offset, -128 .. 255 */
};

/* Some octets of a strip. */
struct split_strip {
    const uint8_t *codes[SPLIT_ROWS], *fetched; /* the end of what is asked for ahead */
    size_t octets;
    const int8_t *q[SPLIT_TOKENS];
    const struct octet_activations (*x)[SPLIT_TOKENS]; /* [octets] */
    const struct octet_scales *w;                      /* [octets] */
    float *lanes;                                      /* [SPLIT_ROWS / SPLIT_PAIR][tokens][SPLIT_PAIR][8] */
    bool has_bias;
    uint8_t flip;
};
/* Adds the terms of the octets to the lanes; made for a layout, a run and a number of tokens. */
typedef void split_kernel_fn(const struct split_strip *s);
/* Kernel of the level, for 1, 2 and 4 tokens. */
static split_kernel_fn *split_kernel(const struct split_format *f, unsigned tokens);

/* What a slab of a few tokens and a strip have in memory. */
struct slab {
    int8_t q[SLAB_BYTES];
    struct octet_activations x[SLAB_OCTETS][SPLIT_TOKENS];
    struct octet_scales w[SLAB_OCTETS];
    uint8_t bytes[SPLIT_ROWS][SLAB_BYTE_COLS];
    float lanes[ROWS_AT_HAND / SPLIT_ROWS + 1][SPLIT_ROWS * SPLIT_TOKENS * SPLIT_RUNS];
};

/* ---- activations ---- */

/* The order of codes for 64 activations: the lower nibbles' to `low`, the upper ones' to `high`. */
ALWAYS_INLINE void order_64(const int8_t *q, enum split_layout layout, int8_t *low, int8_t *high) {
    __m256i a = load_256(q), b = load_256(q + 32), l, h;
    if (layout == SPLIT_BLOCKS) {
        l = _mm256_unpacklo_epi64(a, b);
        h = _mm256_unpackhi_epi64(a, b);
    } else {
        l = _mm256_packs_epi16(_mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8), _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8));
        h = _mm256_packs_epi16(_mm256_srai_epi16(a, 8), _mm256_srai_epi16(b, 8));
    }
    _mm256_storeu_si256((__m256i *)(void *)low, _mm256_permute4x64_epi64(l, 0xd8));
    _mm256_storeu_si256((__m256i *)(void *)high, _mm256_permute4x64_epi64(h, 0xd8));
}

/* One octet of one token, all of which is there. */
static void order_octet(const struct split_format *f, const int8_t *q, const float *scales, const int16_t *sums, int8_t *to,
                        struct octet_activations *x) {
    const size_t elements = SPLIT_RUNS * f->run;
    if (f->layout == SPLIT_BYTES)
        memcpy(to, q, elements);
    for (size_t i = 0; f->layout != SPLIT_BYTES && i < elements; i += 64) {
        int8_t *low = to + i / (2 * SPLIT_VECTOR) * (2 * SPLIT_VECTOR) + i % (2 * SPLIT_VECTOR) / 2;
        order_64(q + i, f->layout, low, low + SPLIT_VECTOR);
    }
    __m256i sum = sums_of_runs(sums, f->run);
    __m256 scale =
        f->run == f->activation_block ? _mm256_loadu_ps(scales) : _mm256_setr_m128(_mm_set1_ps(scales[0]), _mm_set1_ps(scales[1]));
    _mm256_storeu_ps(x->scale, scale);
    _mm256_storeu_ps(x->sum, _mm256_cvtepi32_ps(sum));
    __m256i less = _mm256_and_si256(_mm256_sub_epi32(_mm256_setzero_si256(), sum), _mm256_set1_epi32(0xffff));
    _mm256_storeu_si256((__m256i *)(void *)x->less, less);
}

/* Runs [first, first + count) of one token. */
static void order_token(const struct split_format *f, const uint8_t *row, const struct activation_layout *layout, size_t first,
                        size_t count, int8_t *to, struct octet_activations (*x)[SPLIT_TOKENS], size_t token) {
    const int8_t *q = (const int8_t *)row + first * f->run;
    const float *scales = (const float *)(const void *)(row + layout->scales_offset_bytes) + first * f->run / f->activation_block;
    const int16_t *sums = (const int16_t *)(const void *)(row + layout->sums_offset_bytes) + first * f->run / 16;
    for (; count >= SPLIT_RUNS; count -= SPLIT_RUNS, x++) {
        order_octet(f, q, scales, sums, to, &x[0][token]);
        q += SPLIT_RUNS * f->run;
        scales += SPLIT_RUNS * f->run / f->activation_block;
        sums += SPLIT_RUNS * f->run / 16;
        to += SPLIT_RUNS * f->run;
    }
    if (count == 0)
        return;
    int8_t padded[SPLIT_OCTET_BYTES] = {0};
    float padded_scales[SPLIT_RUNS] = {0};
    int16_t padded_sums[SPLIT_OCTET_BYTES / 16] = {0};
    memcpy(padded, q, count * f->run);
    memcpy(padded_scales, scales, (count * f->run + f->activation_block - 1) / f->activation_block * sizeof *scales);
    memcpy(padded_sums, sums, count * f->run / 16 * sizeof *sums);
    order_octet(f, padded, padded_scales, padded_sums, to, &x[0][token]);
}

/* ---- scales ---- */

#define NEXT_OCTET (sizeof(struct octet_scales) / sizeof(float))

ALWAYS_INLINE size_t bytes_of_scale(enum dtype dtype) { return dtype == DTYPE_F32 ? 4 : dtype == DTYPE_F16 || dtype == DTYPE_BF16 ? 2 : 1; }

ALWAYS_INLINE __m128i load_64_and_64(const uint8_t *low, const uint8_t *high) {
    return _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i *)(const void *)low), _mm_loadl_epi64((const __m128i *)(const void *)high));
}
/* Sixteen codes, of two rows. */
ALWAYS_INLINE void store_halved_e4m3(__m128i codes, float *to) {
    __m256i halves = halves_of_e4m3(codes);
    _mm256_storeu_ps(to, _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(halves)), _mm256_set1_ps(128)));
    _mm256_storeu_ps(to + SPLIT_RUNS, _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)), _mm256_set1_ps(128)));
}

/*
 * To every octet's lanes: `count` neighbouring scales of each row, those of 4-bit floats halved, zeros behind. Of a last octet that is not
 * whole all is read but for what lies past `end`.
 */
ALWAYS_INLINE void neighbouring_scales(enum dtype dtype, const uint8_t *const from[SPLIT_ROWS], size_t count, const uint8_t *end,
                                       float *to) {
    const size_t bytes = SPLIT_RUNS * bytes_of_scale(dtype);
    const __m256 factor = _mm256_set1_ps(bytes == SPLIT_RUNS ? 0.5f : 1.0f);
    size_t o = 0;
    for (; o < count / SPLIT_RUNS; o++)
        for (size_t r = 0; r < SPLIT_ROWS; r += 2) {
            float *first = to + o * NEXT_OCTET + r * SPLIT_RUNS;
            if (dtype == DTYPE_F8_E4M3) {
                store_halved_e4m3(load_64_and_64(from[r] + o * bytes, from[r + 1] + o * bytes), first);
                continue;
            }
            _mm256_storeu_ps(first, _mm256_mul_ps(load_8_scales(dtype, from[r] + o * bytes), factor));
            _mm256_storeu_ps(first + SPLIT_RUNS, _mm256_mul_ps(load_8_scales(dtype, from[r + 1] + o * bytes), factor));
        }
    if (count % SPLIT_RUNS == 0)
        return;
    const __m256i there = _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(count % SPLIT_RUNS)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    for (size_t r = 0; r < SPLIT_ROWS; r++) {
        const uint8_t *scales = from[r] + o * bytes;
        uint8_t padded[SPLIT_RUNS * sizeof(float)] = {0};
        if ((size_t)(end - scales) < bytes)
            scales = memcpy(padded, scales, count % SPLIT_RUNS * bytes_of_scale(dtype));
        __m256 eight = _mm256_and_ps(load_8_scales(dtype, scales), _mm256_castsi256_ps(there));
        _mm256_storeu_ps(to + o * NEXT_OCTET + r * SPLIT_RUNS, _mm256_mul_ps(eight, factor));
    }
}

/* The same of scales that several runs share, or that are none: runs [first, first + count) of a row. */
static void shared_scales(enum dtype dtype, const uint8_t *scales, size_t runs_per_scale, size_t first, size_t count, float *to) {
    for (size_t run = 0; run < count; run += SPLIT_RUNS, to += NEXT_OCTET) {
        size_t there = count - run < SPLIT_RUNS ? count - run : SPLIT_RUNS, index = (first + run) / runs_per_scale;
        bool alike = (first + run + there - 1) / runs_per_scale == index;
        float value = scales ? scale_read(dtype, scales, index) : 1;
        for (size_t i = 0; i < SPLIT_RUNS; i++)
            to[i] = i >= there ? 0 : alike || !scales ? value : scale_read(dtype, scales, (first + run + i) / runs_per_scale);
    }
}

/* A tensor of scales for a slab and a strip. */
static void strip_scales(const struct matrix *w, const struct split_format *f, const uint8_t *scales, const size_t rows[SPLIT_ROWS],
                         size_t first, size_t count, float *to) {
    const enum dtype dtype = matrix_scale_dtype(w);
    const uint8_t *from[SPLIT_ROWS], *end = scales + w->rows * w->scales_row_bytes;
    if (f->layout != SPLIT_FP4 && (w->group_cols != f->run || !scales)) {
        for (size_t r = 0; r < SPLIT_ROWS; r++)
            shared_scales(dtype, scales ? scales + rows[r] * w->scales_row_bytes : NULL, w->group_cols / f->run, first, count,
                          to + r * SPLIT_RUNS);
        return;
    }
    for (size_t r = 0; r < SPLIT_ROWS; r++) {
        from[r] = scales + rows[r] * w->scales_row_bytes + first * bytes_of_scale(dtype);
        for (size_t i = 0; i < w->scales_row_bytes; i += 64) /* of the row that follows */
            __builtin_prefetch(from[r] + w->scales_row_bytes + i);
    }
    if (dtype == DTYPE_BF16)
        neighbouring_scales(DTYPE_BF16, from, count, end, to);
    else if (dtype == DTYPE_F16)
        neighbouring_scales(DTYPE_F16, from, count, end, to);
    else if (dtype == DTYPE_F32)
        neighbouring_scales(DTYPE_F32, from, count, end, to);
    else if (dtype == DTYPE_F8_E8M0)
        neighbouring_scales(DTYPE_F8_E8M0, from, count, end, to);
    else
        neighbouring_scales(DTYPE_F8_E4M3, from, count, end, to);
}

/* The same of blocks of NVFP4: unsigned e4m3, whose code of NaN means 0. */
static void block_scales(const uint8_t *const blocks[SPLIT_ROWS], size_t count, float *to) {
    const size_t next = sizeof(struct block_nvfp4);
    for (size_t run = 0; run < count; run += SPLIT_RUNS, to += NEXT_OCTET)
        for (size_t r = 0; r < SPLIT_ROWS; r += 2) {
            const uint8_t *a = blocks[r] + run / 4 * next, *b = blocks[r + 1] + run / 4 * next;
            const bool alone = count - run < SPLIT_RUNS; /* the last block of a row */
            __m128i codes = _mm_setr_epi32((int)load_u32(a), alone ? 0 : (int)load_u32(a + next), (int)load_u32(b),
                                           alone ? 0 : (int)load_u32(b + next));
            codes = _mm_and_si128(codes, _mm_set1_epi8(0x7f));
            codes = _mm_andnot_si128(_mm_cmpeq_epi8(codes, _mm_set1_epi8(0x7f)), codes);
            store_halved_e4m3(codes, to + r * SPLIT_RUNS);
        }
}

/* Zero points of a row, as the level takes codes. */
static void row_zeros(const struct matrix *w, size_t row, size_t runs_per_group, size_t first, size_t count, int32_t *to) {
    const size_t at = w->group_row_offset + row;
    const int less = w->bits == 8 ? SPLIT_LESS : 0;
    for (size_t run = 0; run < count; run += SPLIT_RUNS, to += NEXT_OCTET) {
        const uint8_t *words = w->biases + 4 * (at / w->group_rows * (w->cols / w->group_cols) + first + run);
        if (runs_per_group > 1 || count - run < SPLIT_RUNS) {
            for (size_t i = 0; i < SPLIT_RUNS && run + i < count; i++)
                to[i] = int_zero(w, row, (first + run + i) / runs_per_group) - less;
        } else {
            __m256i zeros = _mm256_srlv_epi32(load_256(words), _mm256_set1_epi32((int)(at % w->group_rows * w->bits)));
            zeros = _mm256_and_si256(zeros, _mm256_set1_epi32((1 << w->bits) - 1));
            _mm256_storeu_si256((__m256i *)(void *)to, _mm256_sub_epi32(zeros, _mm256_set1_epi32(less)));
        }
    }
}

/* ---- codes ---- */

/* `count` codes, a multiple of 32, of a bit stream as bytes; `end`: of what may be read. */
static void stream_to_bytes(const uint8_t *stream, unsigned bits, size_t count, const uint8_t *end, uint8_t *to) {
    uint8_t place[32]; /* of the two bytes that hold a code; eight codes are `bits` whole bytes */
    uint16_t factor[16];
    for (unsigned i = 0; i < 16; i++) {
        unsigned at = i % 8 * bits, byte = at / 8 + i / 8 * bits;
        place[2 * i] = (uint8_t)byte;
        place[2 * i + 1] = (uint8_t)(byte + 1);
        factor[i] = (uint16_t)(1u << (16 - bits - at % 8)); /* moves it to the top */
    }
    const __m256i places = load_256(place), factors = load_256(factor);
    const __m128i down = _mm_cvtsi32_si128((int)(16 - bits));
    for (; count > 0; count -= 32, to += 32) {
        __m256i half[2];
        fetch_ahead(stream, 4 * bits, end);
        for (unsigned h = 0; h < 2; h++, stream += 2 * bits) {
            uint8_t padded[16] = {0};
            const uint8_t *from = end - stream < 16 ? memcpy(padded, stream, 2 * bits) : stream;
            __m256i words = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load_128(from)), places);
            half[h] = _mm256_srl_epi16(_mm256_mullo_epi16(words, factors), down);
        }
        _mm256_storeu_si256((__m256i *)(void *)to, _mm256_permute4x64_epi64(_mm256_packus_epi16(half[0], half[1]), 0xd8));
    }
}

/* Bytes of the codes of so many runs, as the kernel takes them. */
static size_t bytes_of_runs(const struct split_format *f, size_t runs) {
    if (f->layout == SPLIT_BLOCKS)
        return runs / 4 * sizeof(struct block_nvfp4);
    return f->layout == SPLIT_BYTES ? runs * f->run : runs * f->run / 2;
}

/* ---- the walk ---- */

struct split_walk { /* some rows and tokens */
    const struct matmul_args *args;
    const struct split_format *f;
    split_kernel_fn *kernel;
    struct slab *slab;
    size_t first, count;     /* runs of the slab */
    size_t row, rows, token; /* first row, their number, first token */
    unsigned tokens;
};

static size_t strip_count(const struct split_walk *walk) { return (walk->rows + SPLIT_ROWS - 1) / SPLIT_ROWS; }

/* The rows of a strip. */
static void rows_of_strip(const struct split_walk *walk, size_t strip, size_t rows[SPLIT_ROWS]) {
    size_t apart = walk->rows / SPLIT_ROWS, rest = walk->rows % SPLIT_ROWS;
    for (size_t r = 0; r < SPLIT_ROWS; r++)
        rows[r] = walk->row + (strip < apart ? strip + r * apart : SPLIT_ROWS * apart + (r < rest ? r : rest - 1));
}

/* All octets of a strip; where reading a last one that is not whole would go past `end`, it is taken from padded buffers. */
static void run_kernel(const struct split_walk *walk, struct split_strip *s, const uint8_t *end) {
    uint8_t padded[SPLIT_ROWS][SPLIT_OCTET_BYTES];
    const size_t whole = walk->count / SPLIT_RUNS * SPLIT_RUNS, before = bytes_of_runs(walk->f, whole);
    const size_t part = bytes_of_runs(walk->f, walk->count - whole), octet = bytes_of_runs(walk->f, SPLIT_RUNS);
    bool beyond = false;
    for (size_t r = 0; r < SPLIT_ROWS && part; r++)
        beyond |= (size_t)(end - s->codes[r]) < before + octet;
    s->octets = whole / SPLIT_RUNS + (part && !beyond);
    walk->kernel(s);
    if (!beyond)
        return;
    memset(padded, 0, sizeof padded);
    for (size_t r = 0; r < SPLIT_ROWS; r++)
        s->codes[r] = memcpy(padded[r], s->codes[r] + before, part);
    for (size_t t = 0; t < walk->tokens; t++)
        s->q[t] += whole * walk->f->run;
    s->fetched = NULL;
    s->x += s->octets;
    s->w += s->octets;
    s->octets = 1;
    walk->kernel(s);
}

static void add_strip(const struct split_walk *walk, size_t strip) {
    const struct matrix *w = walk->args->w;
    const struct split_format *f = walk->f;
    struct slab *slab = walk->slab;
    const uint8_t *end = w->data + w->rows * w->row_bytes;
    const bool made = f->layout == SPLIT_BYTES && f->bits != 8;
    const size_t before = f->layout == SPLIT_BLOCKS ? bytes_of_runs(f, walk->first) : walk->first * f->run * f->bits / 8;
    struct split_strip s = {.fetched = made ? NULL : w->data + walk->args->row_end * w->row_bytes,
                            .x = slab->x,
                            .w = slab->w,
                            .lanes = slab->lanes[strip],
                            .has_bias = f->has_bias,
                            .flip = f->flip};
    for (size_t t = 0; t < walk->tokens; t++)
        s.q[t] = slab->q + t * SLAB_BYTES / walk->tokens;
    size_t rows[SPLIT_ROWS];
    rows_of_strip(walk, strip, rows);
    for (size_t r = 0; r < SPLIT_ROWS; r++) {
        s.codes[r] = w->data + rows[r] * w->row_bytes + before;
        if (f->has_zeros)
            row_zeros(w, rows[r], w->group_cols / f->run, walk->first, walk->count, slab->w->zeros + r * SPLIT_RUNS);
    }
    if (f->layout == SPLIT_BLOCKS)
        block_scales(s.codes, walk->count, slab->w->d);
    else
        strip_scales(w, f, w->scales, rows, walk->first, walk->count, slab->w->d);
    if (f->has_bias)
        strip_scales(w, f, w->biases, rows, walk->first, walk->count, slab->w->m);
    for (size_t r = 0; r < SPLIT_ROWS && made; r++) {
        stream_to_bytes(s.codes[r], f->bits, walk->count * f->run, end, slab->bytes[r]);
        s.codes[r] = slab->bytes[r];
    }
    run_kernel(walk, &s, made ? slab->bytes[SPLIT_ROWS] : end);
}

static void store_strip(const struct split_walk *walk, size_t strip) {
    const struct matmul_args *args = walk->args;
    float y[SPLIT_ROWS];
    size_t rows[SPLIT_ROWS];
    rows_of_strip(walk, strip, rows);
    for (size_t t = 0; t < walk->tokens; t++) {
        __m256 lanes[SPLIT_ROWS];
        for (size_t r = 0; r < SPLIT_ROWS; r++) {
            size_t vector = (r / SPLIT_PAIR * walk->tokens + t) * SPLIT_PAIR + r % SPLIT_PAIR;
            lanes[r] = _mm256_loadu_ps(walk->slab->lanes[strip] + vector * SPLIT_RUNS);
        }
        _mm_storeu_ps(y, _mm_mul_ps(trees8_of_4(lanes[0], lanes[1], lanes[2], lanes[3]), _mm_set1_ps(args->w->tensor_scale)));
        for (size_t r = 0; r < SPLIT_ROWS; r++)
            args->y[(walk->token + t) * args->y_stride + rows[r]] = y[r];
    }
}

static void order_slab(const struct split_walk *walk) {
    const struct matmul_args *args = walk->args;
    struct activation_layout layout = activation_layout(walk->f->activation_block, args->w->cols);
    for (size_t t = 0; t < walk->tokens; t++)
        order_token(walk->f, args->x + (walk->token + t) * args->x_row_bytes, &layout, walk->first, walk->count,
                    walk->slab->q + t * SLAB_BYTES / walk->tokens, walk->slab->x, t);
}

static void split_tokens(struct split_walk *walk) {
    const struct matmul_args *args = walk->args;
    const struct split_format *f = walk->f;
    const size_t run_count = args->w->cols / f->run;
    size_t runs = (f->layout == SPLIT_BYTES && f->bits != 8 ? SLAB_BYTE_COLS : SLAB_BYTES / walk->tokens) / f->run;
    runs = runs < SLAB_OCTETS * SPLIT_RUNS ? runs : SLAB_OCTETS * SPLIT_RUNS;
    walk->kernel = split_kernel(f, walk->tokens);
    for (walk->row = args->row_begin; walk->row < args->row_end; walk->row += ROWS_AT_HAND) {
        walk->rows = args->row_end - walk->row < ROWS_AT_HAND ? args->row_end - walk->row : ROWS_AT_HAND;
        memset(walk->slab->lanes, 0, strip_count(walk) * sizeof walk->slab->lanes[0]);
        for (walk->first = 0; walk->first < run_count; walk->first += runs) {
            walk->count = run_count - walk->first < runs ? run_count - walk->first : runs;
            if (walk->row == args->row_begin || run_count > runs)
                order_slab(walk);
            for (size_t strip = 0; strip < strip_count(walk); strip++)
                add_strip(walk, strip);
        }
        for (size_t strip = 0; strip < strip_count(walk); strip++)
            store_strip(walk, strip);
    }
}

static void split_product(const struct matmul_args *args, struct split_format f) {
    struct slab slab;
    struct split_walk walk = {.args = args, .f = &f, .slab = &slab};
    CHECK(args->w->cols % f.run == 0 && args->row_end <= args->w->rows);
    for (size_t o = 0; o < SLAB_OCTETS && !f.has_zeros; o++)
        for (size_t i = 0; i < SPLIT_ROWS * SPLIT_RUNS; i++)
            slab.w[o].zeros[i] = f.offset;
    for (; walk.token < args->tokens; walk.token += walk.tokens) {
        size_t left = args->tokens - walk.token;
        walk.tokens = left >= SPLIT_TOKENS ? SPLIT_TOKENS : left >= 2 ? 2 : 1;
        split_tokens(&walk);
    }
}

/* Codes of 8 bits as the level takes them. */
static struct split_format byte_format(unsigned run, unsigned bits, int offset, bool is_signed) {
    return (struct split_format){SPLIT_BYTES, run, run, bits, offset - SPLIT_LESS, (is_signed ? 0x80 : 0) ^ SPLIT_LESS, false, false};
}

static void affine_product(const struct matmul_args *args) {
    const struct matrix *w = args->w;
    unsigned run = matrix_activation_block(MATRIX_AFFINE, w->group_cols);
    CHECK(w->bits >= 1 && w->bits <= 8 && w->scales && w->biases && w->cols % w->group_cols == 0);
    struct split_format f =
        w->bits == 4 ? (struct split_format){SPLIT_NIBBLES, run, run, 4, 0, 0, false, false} : byte_format(run, w->bits, 0, false);
    f.has_bias = true;
    split_product(args, f);
}

/* Rows whose last run would be short go to ref/. */
static void int_groups_product(const struct matmul_args *args) {
    const struct matrix *w = args->w;
    unsigned run = matrix_activation_block(w->format, w->group_cols);
    CHECK((w->bits == 4 || w->bits == 8) && w->cols % w->group_cols == 0 && args->row_end <= w->rows);
    struct split_format f = w->bits == 4 ? (struct split_format){SPLIT_NIBBLES, run, run, 4, 8, 0, false, false}
                                         : byte_format(run, 8, 128, w->format == MATRIX_INT8_GROUPS);
    f.has_zeros = w->biases != NULL && w->format == MATRIX_INT_GROUPS;
    if (w->cols % run != 0)
        ref_matmul_int_groups(args);
    else
        split_product(args, f);
}

/* Copies of the level's add_octets(strip, shape, tokens), and split_kernel. Shapes are {layout, run}. */
#define SPLIT_SHAPES(X)                                                                                                                    \
    X(SPLIT_NIBBLES, 32)                                                                                                                   \
    X(SPLIT_NIBBLES, 64) X(SPLIT_NIBBLES, 128) X(SPLIT_FP4, 16) X(SPLIT_FP4, 32) X(SPLIT_BLOCKS, 16) X(SPLIT_BYTES, 32) X(SPLIT_BYTES, 64) \
        X(SPLIT_BYTES, 128)
#define SPLIT_KERNEL(layout, run)                                                                                  \
    static void layout##_##run##_1(const struct split_strip *s) { add_octets(s, (struct shape){layout, run}, 1); } \
    static void layout##_##run##_2(const struct split_strip *s) { add_octets(s, (struct shape){layout, run}, 2); } \
    static void layout##_##run##_4(const struct split_strip *s) { add_octets(s, (struct shape){layout, run}, SPLIT_TOKENS); }
#define SPLIT_ENTRY(layout, run) {layout, run, {layout##_##run##_1, layout##_##run##_2, layout##_##run##_4}},
#define SPLIT_KERNELS                                                                     \
    SPLIT_SHAPES(SPLIT_KERNEL)                                                            \
    static split_kernel_fn *split_kernel(const struct split_format *f, unsigned tokens) { \
        static const struct {                                                             \
            enum split_layout layout;                                                     \
            unsigned run;                                                                 \
            split_kernel_fn *kernels[3];                                                  \
        } entries[] = {SPLIT_SHAPES(SPLIT_ENTRY)};                                        \
        size_t i = 0;                                                                     \
        while (entries[i].layout != f->layout || entries[i].run != f->run)                \
            i++;                                                                          \
        return entries[i].kernels[tokens / 2];                                            \
    }

#define SPLIT_PRODUCTS(level)                                                                     \
    void level##_matmul_affine(const struct matmul_args *args) { affine_product(args); }          \
    void level##_matmul_int_groups(const struct matmul_args *args) { int_groups_product(args); }  \
    void level##_matmul_mxfp4_split(const struct matmul_args *args) {                             \
        split_product(args, (struct split_format){SPLIT_FP4, 32, 32, 4, 16, 0, false, false});    \
    }                                                                                             \
    void level##_matmul_nvfp4_split(const struct matmul_args *args) {                             \
        split_product(args, (struct split_format){SPLIT_FP4, 16, 64, 4, 16, 0, false, false});    \
    }                                                                                             \
    void level##_matmul_nvfp4(const struct matmul_args *args) {                                   \
        split_product(args, (struct split_format){SPLIT_BLOCKS, 16, 64, 4, 16, 0, false, false}); \
    }
