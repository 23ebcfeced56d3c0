/* tokenizer: opening by what the path or catalogue holds, the common end of all loaders, and looking things up. */
#include "text/tokenizer.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "base/memory.h"
#include "text/tokenizer_parts.h"

#define PATH_BYTES_MAX 4096u

/* ---- life ---- */

enum status tokenizer_create(struct tokenizer **out, struct error *err) {
    *out = memory_alloc(sizeof(**out));
    if (!*out)
        return error_set(err, STATUS_NO_MEMORY, "no memory for a tokenizer");
    (*out)->bos = VOCAB_NONE;
    return STATUS_OK;
}

void tokenizer_close(struct tokenizer *tokenizer) {
    if (!tokenizer)
        return;
    bpe_deinit(&tokenizer->bpe);
    unigram_deinit(&tokenizer->unigram);
    added_tokens_deinit(&tokenizer->added);
    normalizer_destroy(tokenizer->normalizer);
    pretokenizer_destroy(tokenizer->pretokenizer);
    decoder_destroy(tokenizer->decoder);
    post_processor_deinit(&tokenizer->post);
    token_list_deinit(&tokenizer->end_ids);
    vocab_deinit(&tokenizer->vocab);
    memory_free(tokenizer);
}

enum status tokenizer_add_token(struct tokenizer *tokenizer, uint32_t id, struct text text, unsigned added_flags, struct error *err) {
    uint32_t known;
    if (text.size_bytes == 0)
        return STATUS_OK;
    if (vocab_find_model(&tokenizer->vocab, text, &known))
        id = known;
    TRY(vocab_set(&tokenizer->vocab, id, text, VOCAB_ADDED | (added_flags & ADDED_SPECIAL ? VOCAB_SPECIAL : 0u), err));
    return added_tokens_add(&tokenizer->added, &tokenizer->vocab, id, added_flags, err);
}

enum status tokenizer_add_end(struct tokenizer *tokenizer, uint32_t id, struct error *err) {
    if (vocab_flags_of(&tokenizer->vocab, id) == 0)
        return STATUS_OK;
    for (size_t i = 0; i < tokenizer->end_ids.count; i++)
        if (tokenizer->end_ids.ids[i] == id)
            return STATUS_OK;
    return token_list_append(&tokenizer->end_ids, id, err);
}

enum status tokenizer_finish(struct tokenizer *tokenizer, const json_t *parts, struct text charsmap, struct error *err) {
    CHECK(tokenizer->model != TOKENIZER_NONE && !tokenizer->normalizer);
    TRY(normalizer_create(json_object_get(parts, "normalizer"), &tokenizer->normalizer, err));
    if (charsmap.size_bytes > 0)
        TRY(normalizer_add_charsmap(tokenizer->normalizer, charsmap, err));
    TRY(pretokenizer_create(json_object_get(parts, "pre_tokenizer"), &tokenizer->pretokenizer, err));
    TRY(decoder_create(json_object_get(parts, "decoder"), &tokenizer->decoder, err));
    TRY(post_processor_init(&tokenizer->post, json_object_get(parts, "post_processor"), err));
    TRY(added_tokens_build(&tokenizer->added, &tokenizer->vocab, tokenizer->normalizer, err));
    const struct token_list *lists[] = {&tokenizer->post.before, &tokenizer->post.behind};
    for (size_t list = 0; list < 2; list++)
        for (size_t i = 0; i < lists[list]->count; i++)
            if (vocab_flags_of(&tokenizer->vocab, lists[list]->ids[i]) == 0)
                return error_set(err, STATUS_CORRUPT, "the post-processor adds token %u, which the vocabulary does not have",
                                 lists[list]->ids[i]);
    vocab_trim(&tokenizer->vocab);
    return STATUS_OK;
}

/* ---- opening ---- */

/* Ends an open: the tokenizer on success, nothing on failure. */
static enum status opened(struct tokenizer *tokenizer, enum status status, const char *path, struct tokenizer **out, struct error *err) {
    if (status == STATUS_OK) {
        *out = tokenizer;
        return STATUS_OK;
    }
    tokenizer_close(tokenizer);
    if (err && strncmp(err->text, path, strlen(path)) != 0)
        return error_prefix(err, "%s", path);
    return status;
}

static enum status open_json(const char *path, const char *directory, struct tokenizer **out, struct error *err) {
    struct tokenizer *tokenizer;
    struct json_scan scan;
    TRY(tokenizer_create(&tokenizer, err));
    enum status status = json_scan_open(&scan, path, err);
    if (status == STATUS_OK) {
        status = tokenizer_load_hf(tokenizer, &scan, err);
        json_scan_close(&scan);
    }
    if (status == STATUS_OK && directory)
        status = tokenizer_load_hf_config(tokenizer, directory, err);
    return opened(tokenizer, status, path, out, err);
}

static enum status open_spm(const char *path, const char *directory, struct tokenizer **out, struct error *err) {
    struct tokenizer *tokenizer;
    TRY(tokenizer_create(&tokenizer, err));
    enum status status = tokenizer_load_spm(tokenizer, path, err);
    if (status == STATUS_OK && directory)
        status = tokenizer_load_hf_config(tokenizer, directory, err);
    return opened(tokenizer, status, path, out, err);
}

/* tokenizer.json or tokenizer.model of a directory; STATUS_NOT_FOUND when it has neither. */
static enum status open_directory(const char *directory, struct tokenizer **out, struct error *err) {
    char path[PATH_BYTES_MAX];
    TRY(file_join(directory, "tokenizer.json", path, sizeof(path), err));
    if (file_exists(path))
        return open_json(path, directory, out, err);
    TRY(file_join(directory, "tokenizer.model", path, sizeof(path), err));
    if (file_exists(path))
        return open_spm(path, directory, out, err);
    return error_set(err, STATUS_NOT_FOUND, "%s: no tokenizer.json and no tokenizer.model here", directory);
}

enum status tokenizer_open(const struct catalogue *catalogue, struct tokenizer **out, struct error *err) {
    *out = NULL;
    if (catalogue_world(catalogue) != CATALOGUE_GGUF || !catalogue_meta(catalogue, "tokenizer.ggml.model"))
        return open_directory(catalogue_directory(catalogue), out, err);
    struct tokenizer *tokenizer;
    TRY(tokenizer_create(&tokenizer, err));
    enum status status = opened(tokenizer, tokenizer_load_gguf(tokenizer, catalogue, err), catalogue_path(catalogue), out, err);
    if (status != STATUS_UNSUPPORTED)
        return status;
    /* A pre-tokenizer newer than our table: the model's own file, when the user has put it there, says it all. */
    struct error missing;
    enum status beside = open_directory(catalogue_directory(catalogue), out, &missing);
    return beside == STATUS_OK ? STATUS_OK : status;
}

static enum status open_model(const char *path, struct tokenizer **out, struct error *err) {
    struct file_set *files;
    struct catalogue *catalogue;
    TRY(file_set_create(&files, err));
    enum status status = catalogue_open(path, files, &catalogue, err);
    if (status == STATUS_OK) {
        status = tokenizer_open(catalogue, out, err);
        catalogue_close(catalogue);
    }
    file_set_destroy(files);
    return status;
}

enum file_form { FORM_JSON, FORM_GGUF, FORM_SPM };

/* Tells the forms apart by their first bytes: "GGUF", white space and '{', or anything else. */
static enum status read_form(const char *path, enum file_form *form, struct error *err) {
    char head[64];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return error_set(err, file_exists(path) ? STATUS_IO : STATUS_NOT_FOUND, "%s: cannot be opened", path);
    ssize_t got = read(file, head, sizeof(head));
    (void)close(file);
    if (got <= 0)
        return error_set(err, got < 0 ? STATUS_IO : STATUS_CORRUPT, "%s: %s", path, got < 0 ? "cannot be read" : "is empty");
    ssize_t at = 0;
    while (at < got && (head[at] == ' ' || head[at] == '\n' || head[at] == '\r' || head[at] == '\t'))
        at++;
    *form = got >= 4 && memcmp(head, "GGUF", 4) == 0 ? FORM_GGUF : at < got && head[at] == '{' ? FORM_JSON : FORM_SPM;
    return STATUS_OK;
}

enum status tokenizer_open_path(const char *path, struct tokenizer **out, struct error *err) {
    *out = NULL;
    if (file_is_directory(path)) {
        enum status status = open_directory(path, out, err);
        return status == STATUS_NOT_FOUND ? open_model(path, out, err) : status;
    }
    enum file_form form = FORM_JSON;
    TRY(read_form(path, &form, err));
    switch (form) {
    case FORM_JSON:
        return open_json(path, NULL, out, err);
    case FORM_GGUF:
        return open_model(path, out, err);
    case FORM_SPM:
        return open_spm(path, NULL, out, err);
    }
    CHECK(false);
    return STATUS_INTERNAL;
}

/* ---- looking up ---- */

void token_list_deinit(struct token_list *list) {
    memory_free(list->ids);
    *list = (struct token_list){0};
}

enum status token_list_append(struct token_list *list, uint32_t id, struct error *err) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity + list->capacity / 2 + 16;
        uint32_t *ids = memory_resize(list->ids, capacity, sizeof(*ids));
        if (!ids)
            return error_set(err, STATUS_NO_MEMORY, "no memory for %zu token ids", capacity);
        list->ids = ids;
        list->capacity = capacity;
    }
    list->ids[list->count++] = id;
    return STATUS_OK;
}

const char *tokenizer_kind(const struct tokenizer *tokenizer) {
    uint32_t id;
    if (tokenizer->model == TOKENIZER_UNIGRAM)
        return "unigram";
    if (tokenizer->bpe.options.byte_fallback || tokenizer->bpe.score_ranks)
        return "SentencePiece BPE";
    return vocab_find_model(&tokenizer->vocab, TEXT("\xc4\xa0"), &id) ? "byte-level BPE" : "BPE"; /* how that alphabet writes a space */
}

uint32_t tokenizer_vocab_size(const struct tokenizer *tokenizer) { return tokenizer->vocab.count; }

struct text tokenizer_token_text(const struct tokenizer *tokenizer, uint32_t id) {
    return vocab_text(&tokenizer->vocab, id);
}

bool tokenizer_token_is_special(const struct tokenizer *tokenizer, uint32_t id) {
    return (vocab_flags_of(&tokenizer->vocab, id) & VOCAB_SPECIAL) != 0;
}

enum status tokenizer_token_bytes(const struct tokenizer *tokenizer, uint32_t id, struct byte_buffer *out, struct error *err) {
    unsigned flags = vocab_flags_of(&tokenizer->vocab, id);
    if (flags == 0 || (flags & VOCAB_SPECIAL))
        return STATUS_OK;
    struct decoder_token token = {.text = added_tokens_spelling(&tokenizer->added, id, vocab_text(&tokenizer->vocab, id)),
                                  .added = (flags & VOCAB_ADDED) != 0};
    return decoder_bytes(tokenizer->decoder, token, out, err);
}

bool tokenizer_find(const struct tokenizer *tokenizer, struct text token, uint32_t *id) { return vocab_find(&tokenizer->vocab, token, id); }

bool tokenizer_bos(const struct tokenizer *tokenizer, uint32_t *id) {
    if (tokenizer->bos == VOCAB_NONE)
        return false;
    *id = tokenizer->bos;
    return true;
}

const uint32_t *tokenizer_end_ids(const struct tokenizer *tokenizer, size_t *count) {
    *count = tokenizer->end_ids.count;
    return tokenizer->end_ids.ids;
}
