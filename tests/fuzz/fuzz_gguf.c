/* fuzz_gguf: any bytes as a model file; the corpus holds GGUF headers. What opens is looked at whole. */
#include "fuzz.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"
#include "format/catalogue.h"

static volatile uint64_t sink;

/* Reads every byte of names and metadata; the sum keeps the reads alive. */
static uint64_t look(const struct catalogue *catalogue, const struct file_set *files) {
    for (uint64_t i = 0; i < catalogue_tensor_count(catalogue); i++) {
        const struct tensor_entry *tensor = catalogue_tensor(catalogue, i);
        CHECK(tensor->offset_bytes <= file_set_size_bytes(files, tensor->file));
        CHECK(tensor->size_bytes <= file_set_size_bytes(files, tensor->file) - tensor->offset_bytes);
        CHECK(catalogue_find(catalogue, tensor->name) == tensor);
    }
    uint64_t sum = 0;
    for (uint64_t i = 0; i < catalogue_meta_count(catalogue); i++) {
        const struct meta_value *value = catalogue_meta_at(catalogue, i);
        struct text text;
        double number;
        sum += text_hash(catalogue_meta_key(catalogue, i));
        if (meta_text(value, &text))
            sum += text_hash(text);
        for (uint64_t k = 0; value->type == META_ARRAY && value->array.items && k < value->array.count; k++)
            sum += meta_array_text(value, k, &text) ? text_hash(text) : meta_array_f64(value, k, &number);
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
    struct error err = {0};
    struct file_set *files;
    struct catalogue *catalogue;
    char path[64];
    uint64_t before = memory_owner_bytes(MEMORY_OTHER);
    int fd = memfd_create("fuzz_gguf", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, data, size_bytes) == (ssize_t)size_bytes);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    CHECK(file_set_create(&files, &err) == STATUS_OK);
    if (catalogue_open(path, files, &catalogue, &err) == STATUS_OK)
        sink = look(catalogue, files);
    else
        CHECK(catalogue == NULL && err.text[0] != 0);
    catalogue_close(catalogue);
    file_set_destroy(files);
    close(fd);
    CHECK(memory_owner_bytes(MEMORY_OTHER) == before);
    return 0;
}
