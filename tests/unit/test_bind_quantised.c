/*
 * test_bind_quantised: formats whose scales are tensors of their own: told apart by shapes, compared with config.json, refused when the
 * shapes lie, always with both numbers in the message.
 *
 * The model is a llama of one layer whose files hold zeros; a case replaces, adds or removes tensors of it.
 */
#define model_open fixture_open /* the fixture's open a catalogue, ours a model */
#define model_close fixture_close
#include "model_fixture.h"
#undef model_open
#undef model_close

#include "model/model.h"

#define CASE_TENSORS 12

struct tensor_text {
    const char *name, *dtype, *shape; /* dtype NULL: removed */
};
struct model_case {
    const char *config;                       /* members for config.json, with a leading comma, or "" */
    struct tensor_text tensors[CASE_TENSORS]; /* until name NULL */
};

#define Q "model.layers.0.self_attn.q_proj"

/* ---- writing a model ---- */

static const struct {
    const char *module;
    unsigned rows, cols;
} matrices[] = {
    {"model.embed_tokens", 32, 64},
    {"lm_head", 32, 64},
    {Q, 64, 64},
    {"model.layers.0.self_attn.k_proj", 64, 64},
    {"model.layers.0.self_attn.v_proj", 64, 64},
    {"model.layers.0.self_attn.o_proj", 64, 64},
    {"model.layers.0.mlp.gate_proj", 64, 64},
    {"model.layers.0.mlp.up_proj", 64, 64},
    {"model.layers.0.mlp.down_proj", 64, 64},
};
static const char *const norms[] = {"model.norm", "model.layers.0.input_layernorm", "model.layers.0.post_attention_layernorm"};

struct header {
    struct byte_buffer text;
    uint64_t data_bytes;
};

static void put_tensor(struct header *header, const char *name, const char *dtype, const char *shape) {
    enum dtype type;
    uint64_t count = 1, bytes;
    unsigned dimension;
    int used;
    CHECK(dtype_from_safetensors(text_of(dtype), &type));
    for (const char *s = shape; sscanf(s, "%u%n", &dimension, &used) == 1; s += used + (s[used] == ','))
        count *= dimension;
    CHECK(dtype_size(type, count, &bytes));
    CHECK(byte_buffer_printf(&header->text, NULL, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%llu,%llu]}",
                             header->text.size_bytes > 1 ? "," : "", name, dtype, shape, (unsigned long long)header->data_bytes,
                             (unsigned long long)(header->data_bytes + bytes)) == STATUS_OK);
    header->data_bytes += bytes;
}

static const struct tensor_text *replaced(const struct model_case *c, const char *name) {
    for (size_t i = 0; i < CASE_TENSORS && c->tensors[i].name; i++)
        if (strcmp(c->tensors[i].name, name) == 0)
            return &c->tensors[i];
    return NULL;
}

static void put_unless_replaced(struct header *header, const struct model_case *c, const char *module, const char *ending,
                                const char *dtype, const char *shape) {
    char name[128];
    (void)snprintf(name, sizeof name, "%s%s", module, ending);
    if (!replaced(c, name))
        put_tensor(header, name, dtype, shape);
}

static void write_model(const struct model_folder *folder, const struct model_case *c) {
    struct header header = {0};
    char shape[64], config[2000];
    byte_buffer_init(&header.text, 1 << 20);
    put(&header.text, "{", 1);
    for (size_t m = 0; m < sizeof matrices / sizeof *matrices; m++) {
        (void)snprintf(shape, sizeof shape, "%u,%u", matrices[m].rows, matrices[m].cols * 4 / 32);
        put_unless_replaced(&header, c, matrices[m].module, ".weight", "U32", shape);
        (void)snprintf(shape, sizeof shape, "%u,%u", matrices[m].rows, matrices[m].cols / 64);
        put_unless_replaced(&header, c, matrices[m].module, ".scales", "BF16", shape);
        put_unless_replaced(&header, c, matrices[m].module, ".biases", "BF16", shape);
    }
    for (size_t n = 0; n < sizeof norms / sizeof *norms; n++)
        put_unless_replaced(&header, c, norms[n], ".weight", "BF16", "64");
    for (size_t i = 0; i < CASE_TENSORS && c->tensors[i].name; i++)
        if (c->tensors[i].dtype)
            put_tensor(&header, c->tensors[i].name, c->tensors[i].dtype, c->tensors[i].shape);
    put(&header.text, "}", 2);
    safetensors_write(model_path(folder, "model.safetensors"), (const char *)header.text.data, header.data_bytes);
    (void)snprintf(
        config, sizeof config,
        "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":1,\"num_attention_heads\":2,\"num_key_value_heads\":2,"
        "\"head_dim\":32,\"intermediate_size\":64,\"vocab_size\":32,\"rms_norm_eps\":1e-5,\"max_position_embeddings\":64,"
        "\"tie_word_embeddings\":false%s}",
        c->config);
    model_write_text(model_path(folder, "config.json"), config);
    byte_buffer_deinit(&header.text);
}

/* ---- opening it ---- */

static enum status try_open(const struct model_case *c, struct file_set **files, struct model **model, struct error *err) {
    struct model_folder folder;
    model_folder_create(&folder);
    write_model(&folder, c);
    ASSERT_OK(file_set_create(files, err), *err);
    enum status status = model_open(folder.path, *files, model, err);
    model_folder_destroy(&folder);
    return status;
}

static const struct plan_weight *weight_named(const struct model *model, const char *name) {
    for (uint32_t w = 0; w < model->plan.weight_count; w++)
        if (strcmp(model->plan.weights[w].name, name) == 0)
            return &model->plan.weights[w];
    fail_msg("no weight %s", name);
    return NULL;
}

/* The model opens, and blk.0.attn_q has this format. */
static void assert_q_is(const struct model_case *c, unsigned format, uint32_t bits, uint32_t group_cols) {
    struct file_set *files;
    struct model *model;
    struct error err = {0};
    ASSERT_OK(try_open(c, &files, &model, &err), err);
    const struct plan_weight *q = weight_named(model, "blk.0.attn_q");
    assert_string_equal(matrix_format_name(q->format), matrix_format_name(format));
    assert_int_equal(q->bits, bits);
    assert_int_equal(q->group_cols, group_cols);
    assert_int_equal(model->unused_count, 0);
    model_close(model);
    file_set_destroy(files);
}

/* It fails, and the message holds every one of the `parts` (separated by '|'). */
static void assert_refused(const struct model_case *c, enum status wanted, const char *parts) {
    struct file_set *files;
    struct model *model;
    struct error err = {0};
    uint64_t heap_bytes = memory_owner_bytes(MEMORY_OTHER);
    enum status status = try_open(c, &files, &model, &err);
    if (status != wanted)
        fail_msg("%s (%s), wanted %s with %s", status_name(status), err.text, status_name(wanted), parts);
    for (struct text rest = text_of(parts); rest.size_bytes > 0;) {
        const char *bar = memchr(rest.data, '|', rest.size_bytes);
        size_t part_bytes = bar ? (size_t)(bar - rest.data) : rest.size_bytes, used = part_bytes + (bar ? 1 : 0);
        if (!memmem(err.text, strlen(err.text), rest.data, part_bytes))
            fail_msg("\"%.*s\" is not in: %s", (int)part_bytes, rest.data, err.text);
        rest = (struct text){rest.data + used, rest.size_bytes - used};
    }
    file_set_destroy(files);
    assert_int_equal(memory_owner_bytes(MEMORY_OTHER), heap_bytes);
}

/* ---- MLX ---- */

#define GONE(name) \
    { name, NULL, NULL }
#define Q_AFFINE(words, groups) \
    {Q ".weight", "U32", words}, {Q ".scales", "BF16", groups}, { Q ".biases", "BF16", groups }
#define Q_FLOAT(words, groups) {Q ".weight", "U32", words}, {Q ".scales", "U8", groups}, GONE(Q ".biases")

static void shapes_tell_bits_and_group(void **state) {
    (void)state;
    const char *top = ",\"quantization\":{\"group_size\":64,\"bits\":4}"; /* true for most modules only */
    assert_q_is(&(struct model_case){"", {{0}}}, MATRIX_AFFINE, 4, 64);
    assert_q_is(&(struct model_case){top, {Q_AFFINE("64,4", "64,2")}}, MATRIX_AFFINE, 2, 32);
    assert_q_is(&(struct model_case){top, {Q_AFFINE("64,6", "64,1")}}, MATRIX_AFFINE, 3, 64);
    assert_q_is(&(struct model_case){top, {Q_AFFINE("64,10", "64,1")}}, MATRIX_AFFINE, 5, 64);
    assert_q_is(&(struct model_case){top, {Q_AFFINE("64,12", "64,2")}}, MATRIX_AFFINE, 6, 32);
    assert_q_is(&(struct model_case){top, {Q_AFFINE("64,16", "64,2")}}, MATRIX_AFFINE, 8, 32);
    assert_q_is(&(struct model_case){top, {Q_FLOAT("64,8", "64,2")}}, MATRIX_MXFP4_SPLIT, 4, 32);
    assert_q_is(&(struct model_case){top, {Q_FLOAT("64,8", "64,4")}}, MATRIX_NVFP4_SPLIT, 4, 16);
    assert_q_is(&(struct model_case){top, {Q_FLOAT("64,16", "64,2")}}, MATRIX_MXFP8_SPLIT, 8, 32);
}

static void mlx_formats_that_do_not_exist(void **state) {
    (void)state;
    assert_refused(&(struct model_case){"", {Q_AFFINE("64,8", "64,4")}}, STATUS_UNSUPPORTED, Q "|4 bits in groups of 16|32, 64, 128");
    assert_refused(&(struct model_case){"", {Q_AFFINE("64,14", "64,1")}}, STATUS_UNSUPPORTED, Q "|7 bits in groups of 64");
    assert_refused(&(struct model_case){"", {Q_FLOAT("64,8", "64,1")}}, STATUS_UNSUPPORTED, Q "|4 bits in groups of 64|mxfp4 4/32");
    assert_refused(&(struct model_case){"", {{Q ".biases", "F16", "64,1"}}}, STATUS_UNSUPPORTED, Q "|BF16|F16");
    assert_refused(&(struct model_case){"", {GONE(Q ".biases")}}, STATUS_CORRUPT, Q "|BF16|no biases");
    assert_refused(&(struct model_case){"", {GONE(Q ".scales"), GONE(Q ".biases")}}, STATUS_UNSUPPORTED, Q "|U32|no scales");
}

static void mlx_shapes_that_lie(void **state) {
    (void)state;
    assert_refused(&(struct model_case){"", {{Q ".weight", "U32", "64,7"}}}, STATUS_CORRUPT, Q "|[64][7]|[64][64 * bits / 32]");
    assert_refused(&(struct model_case){"", {{Q ".weight", "U32", "32,8"}}}, STATUS_CORRUPT, Q "|[32][8]|[64][64 * bits / 32]");
    assert_refused(&(struct model_case){"", {{Q ".scales", "BF16", "64,3"}}}, STATUS_CORRUPT, Q "|[64][3]|[64][64 / group size]");
    assert_refused(&(struct model_case){"", {{Q ".scales", "BF16", "63,1"}}}, STATUS_CORRUPT, Q "|[63][1]");
    assert_refused(&(struct model_case){"", {{Q ".biases", "BF16", "64,2"}}}, STATUS_CORRUPT, Q "|[64][2]|64 rows of 1");
    assert_refused(&(struct model_case){"", {{Q ".weight", "I32", "64,8"}}}, STATUS_CORRUPT, Q "|I32|U32");
}

/* D21: an entry of the per-module map is found through the renaming of wrappers, and compared with the shapes. */
static void D21_map_entries(void **state) {
    (void)state;
#define MAP(entry) ",\"quantization\":{\"group_size\":64,\"bits\":4," entry "}"
#define RENAMED "\"model.language_model.layers.0.self_attn.q_proj\":"
    const struct model_case agrees = {MAP("\"" Q "\":{\"bits\":6,\"group_size\":64}"), {Q_AFFINE("64,12", "64,1")}};
    const struct model_case renamed_agrees = {MAP(RENAMED "{\"bits\":6,\"group_size\":64}"), {Q_AFFINE("64,12", "64,1")}};
    const struct model_case lies = {MAP("\"" Q "\":{\"bits\":6,\"group_size\":64}"), {{0}}};
    const struct model_case renamed_lies = {MAP(RENAMED "{\"bits\":4,\"group_size\":32}"), {{0}}};
    const struct model_case no_mode_is_affine = {",\"quantization\":{\"group_size\":32,\"bits\":4,\"mode\":\"mxfp4\",\"" Q
                                                 "\":{\"bits\":4,\"group_size\":32}}",
                                                 {Q_FLOAT("64,8", "64,2")}};
    const struct model_case float_agrees = {MAP("\"" Q "\":{\"bits\":4,\"group_size\":32,\"mode\":\"mxfp4\"}"), {Q_FLOAT("64,8", "64,2")}};
    const struct model_case not_quantised = {MAP("\"" Q "\":false"),
                                             {{Q ".weight", "BF16", "64,64"}, GONE(Q ".scales"), GONE(Q ".biases")}};
    assert_q_is(&agrees, MATRIX_AFFINE, 6, 64);
    assert_q_is(&renamed_agrees, MATRIX_AFFINE, 6, 64);
    assert_q_is(&float_agrees, MATRIX_MXFP4_SPLIT, 4, 32);
    assert_q_is(&not_quantised, DTYPE_BF16, 0, 0);
    assert_refused(&lies, STATUS_CORRUPT, Q "|6 bits in groups of 64 (affine)|4 bits in groups of 64 (affine)");
    assert_refused(&renamed_lies, STATUS_CORRUPT, Q "|4 bits in groups of 32|4 bits in groups of 64");
    assert_refused(&no_mode_is_affine, STATUS_CORRUPT, Q "|(affine)|(mxfp4)");
}

/* ---- fp8, int8, 4-bit floats ---- */

#define Q_PLAIN(dtype, scale_name, scale_dtype, scale_shape) \
    {Q ".weight", dtype, "64,64"}, {Q scale_name, scale_dtype, scale_shape}, GONE(Q ".scales"), GONE(Q ".biases")
#define FP8 ",\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[32,16]}"

static void scales_of_bytes(void **state) {
    (void)state;
    assert_q_is(&(struct model_case){FP8, {Q_PLAIN("F8_E4M3", ".weight_scale_inv", "F32", "2,4")}}, MATRIX_F8_BLOCK, 0, 16);
    assert_q_is(&(struct model_case){FP8, {Q_PLAIN("F8_E5M2", ".weight_scale_inv", "BF16", "2,4")}}, MATRIX_F8_E5M2_BLOCK, 0, 16);
    assert_q_is(&(struct model_case){FP8, {Q_PLAIN("F8_E4M3", ".weight_scale", "F32", "64,1")}}, MATRIX_F8_BLOCK, 0, 64);
    assert_q_is(&(struct model_case){FP8, {Q_PLAIN("F8_E4M3", ".weight_scale", "F32", "64")}}, MATRIX_F8_BLOCK, 0, 64);
    assert_q_is(&(struct model_case){FP8, {Q_PLAIN("F8_E4M3", ".weight_scale", "F32", "1")}}, DTYPE_F8_E4M3, 0, 0);
    assert_q_is(&(struct model_case){FP8, {Q_PLAIN("F8_E5M2", ".weight_scale", "F32", "")}}, DTYPE_F8_E5M2, 0, 0);
    assert_q_is(&(struct model_case){"", {Q_PLAIN("I8", ".weight_scale", "BF16", "64,2")}}, MATRIX_INT8_GROUPS, 8, 32);
    assert_refused(&(struct model_case){FP8, {Q_PLAIN("F8_E4M3", ".weight_scale_inv", "F32", "3,4")}}, STATUS_CORRUPT,
                   Q "|[3][4]|[2][4]|32 x 16");
    assert_refused(&(struct model_case){"", {Q_PLAIN("F8_E4M3", ".weight_scale_inv", "F32", "2,4")}}, STATUS_CORRUPT,
                   Q "|[2][4]|[1][1]|128 x 128");
    assert_refused(&(struct model_case){FP8, {Q_PLAIN("F8_E4M3", ".weight_scale", "I32", "64,1")}}, STATUS_UNSUPPORTED, Q "|I32");
    assert_refused(&(struct model_case){"", {Q_PLAIN("I8", ".weight_scale", "F32", "64,4")}}, STATUS_UNSUPPORTED, Q "|16");
    assert_refused(&(struct model_case){FP8, {Q_PLAIN("BF16", ".weight_scale", "F32", "64,1")}}, STATUS_UNSUPPORTED, Q "|BF16");
    assert_refused(&(struct model_case){",\"quantization_config\":{\"weight_block_size\":[0,16]}",
                                        {Q_PLAIN("F8_E4M3", ".weight_scale_inv", "F32", "2,4")}},
                   STATUS_CORRUPT, "weight_block_size");
}

static void floats_of_four_bits(void **state) {
    (void)state;
#define Q_PACKED(codes, scale_dtype, scale_shape)                                                                           \
    {Q ".weight_packed", "U8", codes}, {Q ".weight_scale", scale_dtype, scale_shape}, GONE(Q ".weight"), GONE(Q ".scales"), \
        GONE(Q ".biases")
    assert_q_is(&(struct model_case){"", {Q_PACKED("64,32", "F8_E4M3", "64,4")}}, MATRIX_NVFP4_SPLIT, 4, 16);
    assert_q_is(&(struct model_case){"", {Q_PACKED("64,32", "U8", "64,2")}}, MATRIX_MXFP4_SPLIT, 4, 32);
    assert_refused(&(struct model_case){"", {Q_PACKED("64,16", "U8", "64,2")}}, STATUS_CORRUPT, Q "|[64][16]|rows of 64");
    assert_refused(&(struct model_case){"", {Q_PACKED("64,32", "U8", "64,4")}}, STATUS_CORRUPT, Q "|[64][4]|[64][2]");
    assert_refused(&(struct model_case){"", {Q_PACKED("64,32", "F32", "64,4")}}, STATUS_UNSUPPORTED, Q "|F32");
    /* a divisor of zero */
    assert_refused(&(struct model_case){"", {Q_PACKED("64,32", "F8_E4M3", "64,4"), {Q ".weight_global_scale", "F32", "1"}}}, STATUS_CORRUPT,
                   Q ".weight_global_scale|fraction");
}

/* ---- words of integers ---- */

static void compressed_tensors(void **state) {
    (void)state;
#define Q_INT(codes, scale_shape) \
    {Q ".weight_packed", "I32", codes}, {Q ".weight_scale", "BF16", scale_shape}, GONE(Q ".weight"), GONE(Q ".scales"), GONE(Q ".biases")
    assert_q_is(&(struct model_case){"", {Q_INT("64,8", "64,2"), {Q ".weight_shape", "I64", "2"}}}, MATRIX_INT_GROUPS, 4, 32);
    assert_q_is(&(struct model_case){"", {Q_INT("64,16", "64,1")}}, MATRIX_INT_GROUPS, 8, 64);
    assert_q_is(&(struct model_case){"", {Q_INT("64,8", "64,2"), {Q ".weight_zero_point", "I32", "8,2"}}}, MATRIX_INT_GROUPS, 4, 32);
    assert_refused(&(struct model_case){"", {Q_INT("64,9", "64,2")}}, STATUS_UNSUPPORTED, Q "|9 words for 64 inputs|4 bits (8)");
    assert_refused(&(struct model_case){"", {Q_INT("64,8", "64,3")}}, STATUS_CORRUPT, Q "|[64][3]");
    assert_refused(&(struct model_case){"", {Q_INT("64,8", "64,4")}}, STATUS_UNSUPPORTED, Q "|groups of 16");
    assert_refused(&(struct model_case){"", {Q_INT("64,8", "64,2"), {Q ".weight_zero_point", "I32", "64,2"}}}, STATUS_CORRUPT,
                   Q "|[64][2]|[8][2]");
    assert_refused(&(struct model_case){"", {Q_INT("64,8", "64,2"), {Q ".weight_g_idx", "I32", "64"}}}, STATUS_UNSUPPORTED,
                   Q "|input 32 belongs to group 0, not 1|act-order");
}

static void awq_and_gptq(void **state) {
    (void)state;
#define Q_WORDS(codes, scales, zeros) \
    {Q ".qweight", "I32", codes}, {Q ".scales", "F16", scales}, {Q ".qzeros", "I32", zeros}, GONE(Q ".weight"), GONE(Q ".biases")
#define METHOD(name, more) ",\"quantization_config\":{\"quant_method\":\"" name "\"" more "}"
    assert_q_is(&(struct model_case){METHOD("awq", ",\"version\":\"gemm\""), {Q_WORDS("64,8", "2,64", "2,8")}}, MATRIX_AWQ, 4, 32);
    assert_q_is(&(struct model_case){METHOD("gptq", ""), {Q_WORDS("8,64", "2,64", "2,8")}}, MATRIX_GPTQ, 4, 32);
    assert_q_is(&(struct model_case){METHOD("gptq", ",\"checkpoint_format\":\"gptq_v2\""), {Q_WORDS("16,64", "1,64", "1,16")}},
                MATRIX_GPTQ_V2, 8, 64);
    assert_refused(&(struct model_case){"", {Q_WORDS("9,64", "2,64", "2,8")}}, STATUS_CORRUPT, Q "|[9][64]|[8][64]|[64][8]");
    assert_refused(&(struct model_case){"", {Q_WORDS("8,64", "3,64", "2,8")}}, STATUS_CORRUPT, Q ".scales|[3][64]");
    assert_refused(&(struct model_case){"", {Q_WORDS("8,64", "2,64", "2,64")}}, STATUS_CORRUPT, Q ".qzeros|[2][64]|[2][8]");
    assert_refused(&(struct model_case){"", {Q_WORDS("8,64", "2,64", "2,8"), {Q ".g_idx", "I32", "64"}}}, STATUS_UNSUPPORTED,
                   Q ".g_idx|input 32 belongs to group 0, not 1|desc_act");
    assert_refused(&(struct model_case){"", {Q_WORDS("8,64", "2,64", "2,8"), {Q ".g_idx", "I32", "60"}}}, STATUS_CORRUPT, Q ".g_idx|[60]");
    assert_refused(&(struct model_case){METHOD("awq", ",\"version\":\"gemv\""), {{0}}}, STATUS_UNSUPPORTED, "gemv");
    assert_refused(&(struct model_case){METHOD("gptq", ",\"checkpoint_format\":\"marlin\""), {{0}}}, STATUS_UNSUPPORTED, "marlin");
    assert_refused(&(struct model_case){METHOD("bitsandbytes", ""), {{0}}}, STATUS_UNSUPPORTED, "bitsandbytes|compressed-tensors");
    assert_refused(
        &(struct model_case){"", {{Q ".qweight", "I32", "8,64"}, {Q ".scales", "F16", "2,64"}, GONE(Q ".weight"), GONE(Q ".biases")}},
        STATUS_NOT_FOUND, Q "|qzeros");
}

/* A llama of one layer as GGUF, all zeros but for "blk.0.attn_q.scale", which is [count] times 2.5. */
static enum status open_gguf(uint64_t count, struct file_set **files, struct model **model, struct error *err) {
    static const struct {
        const char *name;
        uint32_t rank;
    } tensors[] = {{"token_embd.weight", 2},   {"output_norm.weight", 1},   {"blk.0.attn_norm.weight", 1},   {"blk.0.ffn_norm.weight", 1},
                   {"blk.0.attn_k.weight", 2}, {"blk.0.attn_v.weight", 2},  {"blk.0.attn_output.weight", 2}, {"blk.0.ffn_gate.weight", 2},
                   {"blk.0.ffn_up.weight", 2}, {"blk.0.ffn_down.weight", 2}};
    static const char *const keys[] = {"llama.block_count", "llama.embedding_length", "llama.attention.head_count", "llama.context_length"};
    static const uint32_t values[] = {1, 64, 1, 64};
    const float factors[10] = {2.5f, 2.5f};
    struct model_folder folder;
    struct gguf_file g;
    struct byte_buffer bytes;
    gguf_init(&g);
    gguf_text(&g, "general.architecture", "llama");
    for (size_t i = 0; i < 4; i++)
        gguf_u32(&g, keys[i], values[i]);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        gguf_tensor(&g, tensors[i].name, tensors[i].rank, (const uint64_t[]){64, 64}, 0, 16384 * i);
    gguf_tensor(&g, "blk.0.attn_q.weight", 2, (const uint64_t[]){64, 64}, 40, 10 * 16384);
    gguf_tensor(&g, "blk.0.attn_q.scale", 1, &count, 0, 11 * 16384);
    gguf_tensor(&g, "blk.0.attn_q.input_scale", 1, &count, 0, 11 * 16384 + 32);
    g.data_bytes = 11 * 16384;
    gguf_build(&g, &bytes);
    gguf_deinit(&g);
    put(&bytes, factors, sizeof factors);
    model_folder_create(&folder);
    const char *path = model_path(&folder, "m.gguf");
    model_write(path, bytes.data, bytes.size_bytes);
    byte_buffer_deinit(&bytes);
    ASSERT_OK(file_set_create(files, err), *err);
    enum status status = model_open(path, *files, model, err);
    model_folder_destroy(&folder);
    return status;
}

static void factors_of_gguf(void **state) {
    (void)state;
    struct file_set *files;
    struct model *model;
    struct error err = {0};
    ASSERT_OK(open_gguf(1, &files, &model, &err), err);
    assert_true(weight_named(model, "blk.0.attn_q")->tensor_scale == 2.5f && weight_named(model, "blk.0.attn_k")->tensor_scale == 1);
    assert_int_equal(model->unused_count, 0);
    model_close(model);
    file_set_destroy(files);
    assert_int_equal(open_gguf(2, &files, &model, &err), STATUS_CORRUPT);
    assert_non_null(strstr(err.text, "blk.0.attn_q.scale"));
    file_set_destroy(files);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_tell_bits_and_group),
        cmocka_unit_test(mlx_formats_that_do_not_exist),
        cmocka_unit_test(mlx_shapes_that_lie),
        cmocka_unit_test(D21_map_entries),
        cmocka_unit_test(scales_of_bytes),
        cmocka_unit_test(floats_of_four_bits),
        cmocka_unit_test(compressed_tensors),
        cmocka_unit_test(awq_and_gptq),
        cmocka_unit_test(factors_of_gguf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
