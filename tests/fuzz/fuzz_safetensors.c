/* fuzz_safetensors: any bytes as the header of a safetensors file, with a right length in front and 64 bytes of data behind. */
#include "fuzz.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/memory.h"
#include "format/catalogue.h"

static void look(const struct catalogue *catalogue, const struct file_set *files) {
    for (uint64_t i = 0; i < catalogue_tensor_count(catalogue); i++) {
        const struct tensor_entry *tensor = catalogue_tensor(catalogue, i);
        CHECK(tensor->rank <= TENSOR_RANK_MAX);
        CHECK(tensor->offset_bytes <= file_set_size_bytes(files, tensor->file));
        CHECK(tensor->size_bytes <= file_set_size_bytes(files, tensor->file) - tensor->offset_bytes);
        CHECK(catalogue_find(catalogue, tensor->name) == tensor);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
    struct error err = {0};
    struct file_set *files;
    struct catalogue *catalogue;
    char path[64];
    uint64_t before = memory_owner_bytes(MEMORY_OTHER);
    int fd = memfd_create("fuzz_safetensors", MFD_CLOEXEC);
    const uint64_t header_bytes = size_bytes;
    static const uint8_t zeros[64];
    CHECK(fd >= 0 && write(fd, &header_bytes, sizeof header_bytes) == sizeof header_bytes);
    CHECK(write(fd, data, size_bytes) == (ssize_t)size_bytes && write(fd, zeros, sizeof zeros) == sizeof zeros);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    CHECK(file_set_create(&files, &err) == STATUS_OK);
    if (catalogue_open(path, files, &catalogue, &err) == STATUS_OK)
        look(catalogue, files);
    else
        CHECK(catalogue == NULL && err.text[0] != 0);
    catalogue_close(catalogue);
    file_set_destroy(files);
    close(fd);
    CHECK(memory_owner_bytes(MEMORY_OTHER) == before);
    return 0;
}
