/* fuzz_json: any bytes through the JSON reader, as a request and as a file that Python wrote. */
#include "fuzz.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/json.h"
#include "base/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
    struct error err = {0};
    json_t *root;
    uint64_t before = memory_owner_bytes(MEMORY_OTHER);
    if (json_parse((struct text){(const char *)data, size_bytes}, "input", 1 << 20, &root, &err) == STATUS_OK)
        json_decref(root);
    else
        CHECK(root == NULL && err.text[0] != 0);
    char path[64];
    int fd = memfd_create("fuzz_json", MFD_CLOEXEC);
    CHECK(fd >= 0 && write(fd, data, size_bytes) == (ssize_t)size_bytes);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (json_read_file(path, 1 << 20, &root, &err) == STATUS_OK)
        json_decref(root);
    close(fd);
    CHECK(memory_owner_bytes(MEMORY_OTHER) == before);
    return 0;
}
