/* test_safetensors: headers right and wrong, large ones, and the writer. */
#include "model_fixture.h"

#include <sys/stat.h>
#include <time.h>

#include "format/safetensors.h"
#include "format/safetensors_write.h"

static struct model_folder folder;
static char path[4096];

static int set_up(void **state) {
    (void)state;
    model_folder_create(&folder);
    snprintf(path, sizeof path, "%s", model_path(&folder, "m.safetensors"));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    model_folder_destroy(&folder);
    return 0;
}

static void assert_header_fails(const char *header, uint64_t data_bytes, enum status wanted, const char *parts) {
    safetensors_write(path, header, data_bytes);
    assert_open_fails(path, wanted, parts);
}

static void assert_header_opens(const char *header, uint64_t data_bytes, struct opened *o) {
    safetensors_write(path, header, data_bytes);
    ASSERT_OK(model_open(o, path), o->error);
}

/* ---- what is right ---- */

static void a_small_file(void **state) {
    (void)state;
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                                 "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[4,16]},"
                                 "\"scalar\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
                                 "\"none\":{\"dtype\":\"I64\",\"shape\":[0,7],\"data_offsets\":[16,16]},"
                                 "\"\\u00e9/x\":{\"extra\":[1],\"data_offsets\":[16,18],\"shape\":[2],\"dtype\":\"F8_E4M3\"}}";
    struct opened o;
    assert_header_opens(header, 18, &o);
    const struct catalogue *c = o.catalogue;
    assert_int_equal(catalogue_world(c), CATALOGUE_HF);
    assert_int_equal(catalogue_meta_count(c), 0);
    assert_int_equal(catalogue_tensor_count(c), 4);
    const struct tensor_entry *b = catalogue_tensor(c, 0); /* in the order of the header */
    assert_true(text_is(b->name, "b"));
    assert_int_equal(b->dtype, DTYPE_BF16);
    assert_int_equal(b->rank, 2);
    assert_true(b->shape[0] == 2 && b->shape[1] == 3);
    assert_int_equal(b->offset_bytes, 8 + strlen(header) + 4);
    assert_int_equal(b->size_bytes, 12);
    const struct tensor_entry *scalar = catalogue_find(c, TEXT("scalar"));
    assert_int_equal(scalar->rank, 0);
    assert_int_equal(scalar->size_bytes, 4);
    assert_int_equal(catalogue_find(c, TEXT("none"))->size_bytes, 0);
    assert_int_equal(catalogue_find(c, TEXT("é/x"))->dtype, DTYPE_F8_E4M3);
    model_close(&o);
}

static void d18_white_space_is_legal(void **state) {
    (void)state;
    struct opened o;
    assert_header_opens("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}          ", 1, &o);
    model_close(&o);
    assert_header_opens("{ \"a\" : {\"dtype\":\"U8\" , \"shape\":[ 1 ],\"data_offsets\":[0,1]} ,\n\t\"b\":{\"dtype\":\"U8\",\"shape\":[0],"
                        "\"data_offsets\":[1,1]} }\n",
                        1, &o);
    assert_int_equal(catalogue_tensor_count(o.catalogue), 2);
    model_close(&o);
    assert_header_opens("{}", 0, &o);
    model_close(&o);
}

/* ---- the length in front ---- */

static void d18_header_length(void **state) {
    (void)state;
    static const uint64_t lengths[] = {0, 1, 51, 1000000, UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 63, (uint64_t)1 << 40};
    struct byte_buffer whole;
    struct rlimit old = limit_growth((uint64_t)16 << 20);
    safetensors_build(&whole, "{\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0);
    assert_int_equal(whole.size_bytes, 8 + 53);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        char parts[64];
        memcpy(whole.data, &lengths[i], 8);
        model_write(path, whole.data, whole.size_bytes);
        snprintf(parts, sizeof parts, "header of %llu bytes|61", (unsigned long long)lengths[i]);
        assert_open_fails(path, STATUS_CORRUPT, lengths[i] == 51 ? "not valid JSON" : parts);
    }
    allow_growth(old);
    byte_buffer_deinit(&whole);
    model_write(path, "\1\0\0\0\0\0\0", 7);
    assert_open_fails(path, STATUS_CORRUPT, "has 7 bytes|too few");
    model_write(path, "", 0);
    assert_open_fails(path, STATUS_CORRUPT, "empty");
}

static void d18_cut_at_every_byte(void **state) {
    (void)state;
    struct byte_buffer whole;
    safetensors_build(
        &whole,
        "{\"a\":{\"dtype\":\"F16\",\"shape\":[2,2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[8,9]}}",
        9);
    for (size_t length = 0; length < whole.size_bytes; length++) {
        model_write(path, whole.data, length);
        assert_open_fails(path, STATUS_CORRUPT, "m.safetensors|download it again");
        if (length > 8) { /* the same with a length that fits: the JSON is cut instead */
            uint64_t header_bytes = length - 8;
            char old[8];
            memcpy(old, whole.data, 8);
            memcpy(whole.data, &header_bytes, 8);
            model_write(path, whole.data, length);
            assert_open_fails(path, STATUS_CORRUPT, "m.safetensors");
            memcpy(whole.data, old, 8);
        }
    }
    byte_buffer_deinit(&whole);
}

/* A header of exactly header_bytes, padded by a long text in the metadata; all of the data is one U8. */
static void assert_padded_opens(uint64_t header_bytes) {
    static const char head[] = "{\"__metadata__\":{\"pad\":\"",
                      tail[] = "\"},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    uint64_t pad_bytes = header_bytes - (sizeof head - 1) - (sizeof tail - 1);
    struct opened o;
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    static char block[1 << 16];
    memset(block, 'x', sizeof block);
    fwrite(&header_bytes, 1, 8, file);
    fputs(head, file);
    for (uint64_t left = pad_bytes; left > 0;) {
        size_t part = left < sizeof block ? (size_t)left : sizeof block;
        assert_int_equal(fwrite(block, 1, part, file), part);
        left -= part;
    }
    fputs(tail, file);
    fputc(0, file);
    assert_int_equal(fclose(file), 0);
    ASSERT_OK(model_open(&o, path), o.error);
    assert_int_equal(catalogue_tensor(o.catalogue, 0)->offset_bytes, 8 + header_bytes);
    model_close(&o);
}

static void d20_large_headers(void **state) {
    (void)state;
    static const uint64_t sizes[] = {99999, 100000, 100001, 2 << 20, 101000000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        assert_padded_opens(sizes[i]);
    uint64_t header_bytes = SAFETENSORS_HEADER_MAX_BYTES + 1; /* above the cap, in a file with a hole */
    model_write(path, &header_bytes, sizeof header_bytes);
    assert_int_equal(truncate(path, (off_t)header_bytes + 8), 0);
    assert_open_fails(path, STATUS_UNSUPPORTED, "536870913|at most 536870912");
    assert_int_equal(unlink(path), 0);
}

/* Time per tensor does not grow: 8 times as many take less than 24 times as long. */
static void d20_the_parse_is_linear(void **state) {
    (void)state;
    double seconds[2] = {0};
    for (unsigned round = 0; round < 2; round++) {
        unsigned count = round ? 80000 : 10000;
        struct byte_buffer header;
        struct opened o;
        byte_buffer_init(&header, (size_t)1 << 28);
        for (unsigned i = 0; i < count; i++)
            assert_int_equal(
                byte_buffer_printf(&header, NULL,
                                   "%s\"model.layers.%u.mlp.experts.%u.w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[%u,%u]}",
                                   i ? "," : "{", i / 100, i % 100, i * 4, i * 4 + 4),
                STATUS_OK);
        put(&header, "}", 1);
        safetensors_write(path, header.data, (uint64_t)count * 4);
        byte_buffer_deinit(&header);
        struct timespec begin, end;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
        ASSERT_OK(model_open(&o, path), o.error);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
        assert_int_equal(catalogue_tensor_count(o.catalogue), count);
        assert_non_null(catalogue_find(o.catalogue, TEXT("model.layers.99.mlp.experts.99.w")));
        model_close(&o);
        seconds[round] = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
    }
    assert_true(seconds[1] < seconds[0] * 24 + 0.05);
}

/* ---- entries ---- */

static void bad_json(void **state) {
    (void)state;
    static const char *const headers[] = {
        "[]",
        "  x",
        "{",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":}",
        "{\"a\" 1}",
        "{,}",
        "{\"a\":1,}",
        "{\"a\":{} \"b\":{}}",
        "{}{}",
        "{} x",
        "{\"a\\q\":1}",
        "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
        "{\"\xff\":1}",
        "{1:2}",
        "{\"a\":tru}",
        "{\"a\":\"x}",
    };
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
        assert_header_fails(headers[i], 0, STATUS_CORRUPT, "m.safetensors");
    struct byte_buffer deep; /* nested deeper than a parser that recurses should follow */
    byte_buffer_init(&deep, 1 << 20);
    put(&deep, "{\"a\":", 5);
    for (unsigned i = 0; i < 100000; i++)
        put(&deep, "[", 1);
    assert_header_fails(deep.data, 0, STATUS_CORRUPT, "nested too deep");
    byte_buffer_deinit(&deep);
}

static void bad_entries(void **state) {
    (void)state;
    static const struct {
        const char *entry, *parts;
        enum status status;
    } rows[] = {
        {"1", "tensor a|no object", STATUS_CORRUPT},
        {"{\"shape\":[0],\"data_offsets\":[0,0]}", "tensor a|dtype is missing", STATUS_CORRUPT},
        {"{\"dtype\":3,\"shape\":[0],\"data_offsets\":[0,0]}", "tensor a|dtype", STATUS_CORRUPT},
        {"{\"dtype\":\"F4\",\"shape\":[2],\"data_offsets\":[0,1]}", "tensor a|dtype F4|are", STATUS_UNSUPPORTED},
        {"{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[0,8]}", "tensor a|dtype C64", STATUS_UNSUPPORTED},
        {"{\"dtype\":\"U8\",\"data_offsets\":[0,0]}", "tensor a|shape is missing", STATUS_CORRUPT},
        {"{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,0]}", "tensor a|no length", STATUS_CORRUPT},
        {"{\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]}", "tensor a|no length", STATUS_CORRUPT},
        {"{\"dtype\":\"U8\",\"shape\":[\"1\"],\"data_offsets\":[0,1]}", "tensor a|no length", STATUS_CORRUPT},
        {"{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1],\"data_offsets\":[0,1]}", "tensor a|7 dimensions|at most 6", STATUS_UNSUPPORTED},
        {"{\"dtype\":\"U8\",\"shape\":[1]}", "tensor a|data_offsets", STATUS_CORRUPT},
        {"{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}", "tensor a|data_offsets", STATUS_CORRUPT},
        {"{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,1]}", "tensor a|data_offsets", STATUS_CORRUPT},
        {"{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[-1,0]}", "tensor a|data_offsets", STATUS_CORRUPT},
        {"{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[0,9]}", "tensor a|needs bytes 0 to 9|the file has 8|incomplete",
         STATUS_CORRUPT},
        {"{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[9223372036854775806,9223372036854775807]}", "tensor a|needs bytes",
         STATUS_CORRUPT},
        {"{\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[0,8]}", "tensor a|takes 6 bytes|give it 8", STATUS_CORRUPT},
        {"{\"dtype\":\"U8\",\"shape\":[9223372036854775807,2],\"data_offsets\":[0,8]}", "tensor a|overflows", STATUS_CORRUPT},
        {"{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}", "tensor a|overflows", STATUS_CORRUPT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char header[256];
        snprintf(header, sizeof header, "{\"a\":%s}", rows[i].entry);
        assert_header_fails(header, 8, rows[i].status, rows[i].parts);
    }
}

static void d13_duplicates_and_overlap(void **state) {
    (void)state;
    assert_header_fails(
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", 2,
        STATUS_CORRUPT, "tensor a occurs twice|at offset 113 and in|at offset 114");
    assert_header_fails(
        "{\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[3,7]},\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 7,
        STATUS_CORRUPT, "tensors a|and b|share bytes");
    assert_header_fails( /* the format allows no holes: what is between or behind belongs to tensors that the header lost */
        "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[5,7]},\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 9,
        STATUS_CORRUPT, "take 6 bytes|has 9|download it again");
}

/* ---- lengths that look like other files ---- */

static void lengths_that_look_like_magic(void **state) {
    (void)state;
    static const uint64_t lengths[] = {0x0280 /* pickle */, 0x8b1f /* gzip */};
    for (size_t i = 0; i < 2; i++)
        assert_padded_opens(lengths[i]);
    model_write_text(path, "<!DOCTYPE html><html></html>");
    assert_open_fails(path, STATUS_CORRUPT, "web page");
}

/* ---- writing ---- */

static void what_is_written_is_read(void **state) {
    (void)state;
    struct safetensors_writer *w;
    struct error err;
    struct opened o;
    const float values[6] = {1, -2, 3.5f, 0, 5, 6};
    const int32_t ids[3] = {7, -8, 9};
    int32_t read_ids[3];
    float read_values[6];
    (void)unlink(path);
    ASSERT_OK(safetensors_writer_create(path, &w, &err), err);
    ASSERT_OK(safetensors_writer_declare(w, "logits \"é\"", "F32", (const uint64_t[]){2, 3}, 2, &err), err);
    ASSERT_OK(safetensors_writer_declare(w, "none", "F32", (const uint64_t[]){0}, 1, &err), err);
    ASSERT_OK(safetensors_writer_declare(w, "ids", "I32", (const uint64_t[]){3}, 1, &err), err);
    ASSERT_FAILS(safetensors_writer_declare(w, "ids", "I32", NULL, 0, &err), STATUS_INVALID, err);
    ASSERT_FAILS(safetensors_writer_declare(w, "x", "I32", (const uint64_t[]){(uint64_t)1 << 62, 4}, 2, &err), STATUS_INVALID, err);
    ASSERT_OK(safetensors_writer_append(w, values, 10, &err), err); /* any cut */
    ASSERT_OK(safetensors_writer_append(w, (const char *)values + 10, 14, &err), err);
    ASSERT_OK(safetensors_writer_append(w, ids, sizeof ids, &err), err);
    assert_false(file_exists(path)); /* only the partial file so far */
    ASSERT_OK(safetensors_writer_finish(w, &err), err);
    ASSERT_OK(model_open(&o, path), o.error);
    assert_int_equal(catalogue_tensor_count(o.catalogue), 3);
    const struct tensor_entry *logits = catalogue_find(o.catalogue, TEXT("logits \"é\"")), *list = catalogue_find(o.catalogue, TEXT("ids"));
    assert_true(logits->rank == 2 && logits->shape[0] == 2 && logits->shape[1] == 3 && logits->dtype == DTYPE_F32);
    assert_int_equal(logits->offset_bytes % 8, 0);
    ASSERT_OK(file_set_read(o.files, 0, logits->offset_bytes, read_values, sizeof read_values, &err), err);
    ASSERT_OK(file_set_read(o.files, 0, list->offset_bytes, read_ids, sizeof read_ids, &err), err);
    assert_memory_equal(values, read_values, sizeof values);
    assert_memory_equal(ids, read_ids, sizeof ids);
    model_close(&o);
}

static void nothing_half_written_is_left(void **state) {
    (void)state;
    struct safetensors_writer *w;
    struct error err;
    struct stat info;
    char partial[4200];
    snprintf(partial, sizeof partial, "%s.partial", path);
    (void)unlink(path);
    ASSERT_OK(safetensors_writer_create(path, &w, &err), err); /* too little data */
    ASSERT_OK(safetensors_writer_declare(w, "a", "F32", (const uint64_t[]){3}, 1, &err), err);
    ASSERT_OK(safetensors_writer_append(w, "1234", 4, &err), err);
    ASSERT_FAILS(safetensors_writer_finish(w, &err), STATUS_INTERNAL, err);
    assert_int_not_equal(stat(partial, &info), 0);
    ASSERT_OK(safetensors_writer_create(path, &w, &err), err);
    assert_int_equal(stat(partial, &info), 0);
    safetensors_writer_abandon(w);
    assert_int_not_equal(stat(partial, &info), 0);
    assert_false(file_exists(path));
    safetensors_writer_abandon(NULL);
    ASSERT_FAILS(safetensors_writer_create(model_path(&folder, "none/m.safetensors"), &w, &err), STATUS_IO, err);
    assert_null(w);
    ASSERT_OK(safetensors_writer_create(path, &w, &err), err); /* no tensors at all */
    ASSERT_OK(safetensors_writer_finish(w, &err), err);
    struct opened o;
    ASSERT_OK(model_open(&o, path), o.error);
    model_close(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_file),
        cmocka_unit_test(d18_white_space_is_legal),
        cmocka_unit_test(d18_header_length),
        cmocka_unit_test(d18_cut_at_every_byte),
        cmocka_unit_test(d20_large_headers),
        cmocka_unit_test(d20_the_parse_is_linear),
        cmocka_unit_test(bad_json),
        cmocka_unit_test(bad_entries),
        cmocka_unit_test(d13_duplicates_and_overlap),
        cmocka_unit_test(lengths_that_look_like_magic),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(nothing_half_written_is_left),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
