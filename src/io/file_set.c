/*
 * file_set: opening, identity and alignment of files. See file_set.h.
 *
 * Entries are heap blocks of their own behind a fixed table, so that a model can be added while reads of another run: readers look at
 * an entry only after `count` was published past it.
 */
#include "io/file_set.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "io/read_retry.h"

enum {
    FILES_MAX = 4096, /* the largest published models have a few hundred shards; two handles each */
    ALIGNMENT_DEFAULT_BYTES = 4096,
    ALIGNMENT_MAX_BYTES = 65536, /* no device asks for more; such a report is not believed */
    CALL_MAX_BYTES = 1 << 30,    /* the kernel takes a little under 2 GiB at once */
};

struct file_entry {
    char *path;
    int buffered_fd;
    int direct_handle;        /* open until destroy, or -1 */
    atomic_int direct_fd;     /* direct_handle, or -1 once direct reads were refused */
    atomic_bool notice_given; /* of the fallback */
    int direct_error;         /* why there is no direct handle, or 0 */
    uint32_t alignment_bytes; /* of direct reads */
    uint64_t size_bytes;      /* at open, as the rest */
    dev_t device;
    ino_t inode;
    struct timespec modified;
    uint32_t first, copy_number;      /* this is that copy of the file `first` */
    uint32_t copies[FILE_COPIES_MAX]; /* of a first one: their numbers, its own among them */
    unsigned copy_count;
    double bytes_per_s; /* of the device, on its first file */
};

struct file_set {
    struct file_entry *entries[FILES_MAX];
    atomic_uint count;
    atomic_uint left_out; /* a bit per copy number */
};

enum status file_set_create(struct file_set **out, struct error *err) {
    *out = memory_alloc(sizeof(struct file_set));
    if (!*out)
        return error_set(err, STATUS_NO_MEMORY, "no memory for the table of files");
    atomic_init(&(*out)->count, 0);
    atomic_init(&(*out)->left_out, 0);
    return STATUS_OK;
}

static void entry_destroy(struct file_entry *entry) {
    if (entry->buffered_fd >= 0)
        (void)close(entry->buffered_fd);
    if (entry->direct_handle >= 0)
        (void)close(entry->direct_handle);
    memory_free(entry->path);
    memory_free(entry);
}

void file_set_destroy(struct file_set *files) {
    if (!files)
        return;
    unsigned count = atomic_load(&files->count);
    for (unsigned i = 0; i < count; i++)
        entry_destroy(files->entries[i]);
    memory_free(files);
}

static enum status open_error(const char *path, struct error *err) {
    int code = errno;
    enum status status = code == ENOENT || code == ENOTDIR ? STATUS_NOT_FOUND : STATUS_IO;
    const char *advice = "";
    if (code == EMFILE || code == ENFILE)
        advice = "; raise the limit of open files (ulimit -n)";
    else if (code == EACCES)
        advice = "; check the permissions of the file and its folders";
    return error_set(err, status, "%s: cannot open: %s%s", path, strerror(code), advice);
}

/* The alignment that the file reports for direct reads, or 0 when it reports that there are none. */
static uint32_t reported_alignment(int fd) {
    struct statx info;
    memset(&info, 0, sizeof info);
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) != 0 || !(info.stx_mask & STATX_DIOALIGN))
        return ALIGNMENT_DEFAULT_BYTES;
    uint32_t offset = info.stx_dio_offset_align, memory = info.stx_dio_mem_align;
    if (offset == 0 || memory == 0)
        return 0;
    uint32_t larger = offset > memory ? offset : memory;
    if ((offset & (offset - 1)) || (memory & (memory - 1)) || larger > ALIGNMENT_MAX_BYTES)
        return 0;
    return larger;
}

/* Opens the direct handle of the same file, or notes why there is none. */
static enum status open_direct(struct file_entry *entry, struct error *err) {
    uint32_t alignment = reported_alignment(entry->buffered_fd);
    entry->alignment_bytes = alignment ? alignment : ALIGNMENT_DEFAULT_BYTES;
    if (!alignment) {
        entry->direct_error = EOPNOTSUPP;
        return STATUS_OK;
    }
    int fd = open(entry->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_DIRECT);
    if (fd < 0) {
        if (errno != EINVAL && errno != EOPNOTSUPP && errno != EPERM && errno != EACCES)
            return open_error(entry->path, err);
        entry->direct_error = errno;
        return STATUS_OK;
    }
    entry->direct_handle = fd;
    struct stat info;
    if (fstat(fd, &info) != 0)
        return open_error(entry->path, err);
    if (info.st_dev != entry->device || info.st_ino != entry->inode)
        return error_set(err, STATUS_IO, "%s: was replaced while it was being opened; run again when nothing writes it", entry->path);
    /* O_NONBLOCK was for pipes only: with it set, io_uring would answer EAGAIN instead of waiting for the disk. */
    if (fcntl(fd, F_SETFL, O_DIRECT) != 0)
        return open_error(entry->path, err);
    atomic_store(&entry->direct_fd, fd);
    return STATUS_OK;
}

static const char *kind_of_file(mode_t mode) {
    if (S_ISDIR(mode))
        return "a directory";
    if (S_ISFIFO(mode))
        return "a pipe";
    if (S_ISSOCK(mode))
        return "a socket";
    return "a device";
}

static enum status entry_open(struct file_entry *entry, struct error *err) {
    /* O_NONBLOCK: opening a pipe must not wait for a writer. */
    entry->buffered_fd = open(entry->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (entry->buffered_fd < 0)
        return open_error(entry->path, err);
    struct stat info;
    if (fstat(entry->buffered_fd, &info) != 0)
        return open_error(entry->path, err);
    if (!S_ISREG(info.st_mode))
        return error_set(err, STATUS_INVALID, "%s: is %s, not a regular file; give the path of a model file", entry->path,
                         kind_of_file(info.st_mode));
    if (fcntl(entry->buffered_fd, F_SETFL, 0) != 0)
        return open_error(entry->path, err);
    CHECK(info.st_size >= 0);
    entry->size_bytes = (uint64_t)info.st_size;
    entry->device = info.st_dev;
    entry->inode = info.st_ino;
    entry->modified = info.st_mtim;
    return open_direct(entry, err);
}

enum status file_set_add(struct file_set *files, const char *path, uint32_t *file, struct error *err) {
    CHECK(path);
    if (path[0] == 0)
        return error_set(err, STATUS_INVALID, "the path of a model file is empty; give the path of a file");
    unsigned count = atomic_load(&files->count);
    if (count == FILES_MAX)
        return error_set(err, STATUS_UNSUPPORTED, "%s: more than %d model files are open", path, FILES_MAX);
    struct file_entry *entry = memory_alloc(sizeof *entry);
    if (!entry)
        return error_set(err, STATUS_NO_MEMORY, "%s: no memory to open it", path);
    entry->buffered_fd = entry->direct_handle = -1;
    atomic_init(&entry->direct_fd, -1);
    atomic_init(&entry->notice_given, false);
    entry->path = memory_copy_text(path, strlen(path));
    enum status status = entry->path ? entry_open(entry, err) : error_set(err, STATUS_NO_MEMORY, "%s: no memory to open it", path);
    if (status != STATUS_OK) {
        entry_destroy(entry);
        return status;
    }
    entry->first = entry->copies[0] = *file = count;
    entry->copy_count = 1;
    files->entries[count] = entry;
    atomic_store_explicit(&files->count, count + 1, memory_order_release);
    return STATUS_OK;
}

static struct file_entry *entry_of(const struct file_set *files, uint32_t file) {
    CHECK(file < atomic_load_explicit(&files->count, memory_order_acquire));
    return files->entries[file];
}

/* ---- copies ---- */

static const struct file_entry *first_of(const struct file_set *files, uint32_t file) {
    return files->entries[entry_of(files, file)->first];
}

enum status file_set_add_copy(struct file_set *files, uint32_t file, const char *path, uint32_t *copy, struct error *err) {
    struct file_entry *first = entry_of(files, file);
    CHECK(first->first == file);
    if (first->copy_count == FILE_COPIES_MAX)
        return error_set(err, STATUS_INVALID, "%s: a model can have %d copies beside it, not more", path, FILE_COPIES_MAX - 1);
    TRY(file_set_add(files, path, copy, err));
    struct file_entry *entry = entry_of(files, *copy);
    if (entry->size_bytes != first->size_bytes)
        return error_set(err, STATUS_INVALID,
                         "%s: is no copy of %s: it has %" PRIu64 " bytes, not %" PRIu64 "; copy the file again, or name another", path,
                         first->path, entry->size_bytes, first->size_bytes);
    entry->first = file;
    entry->copy_number = first->copy_count;
    first->copies[first->copy_count++] = *copy;
    uint32_t larger = entry->alignment_bytes > first->alignment_bytes ? entry->alignment_bytes : first->alignment_bytes;
    for (unsigned n = 0; n < first->copy_count; n++)
        files->entries[first->copies[n]]->alignment_bytes = larger;
    return STATUS_OK;
}

unsigned file_set_copies(const struct file_set *files, uint32_t file) { return first_of(files, file)->copy_count; }
unsigned file_set_copy_number(const struct file_set *files, uint32_t file) { return entry_of(files, file)->copy_number; }

uint32_t file_set_copy(const struct file_set *files, uint32_t file, unsigned n) {
    const struct file_entry *first = first_of(files, file);
    CHECK(n < first->copy_count);
    return first->copies[n];
}

bool file_set_same(const struct file_set *files, uint32_t a, uint32_t b) {
    const struct file_entry *x = entry_of(files, a), *y = entry_of(files, b);
    return x->device == y->device && x->inode == y->inode;
}

void file_set_leave_out(struct file_set *files, uint32_t file, const char *reason) {
    const struct file_entry *first = first_of(files, file);
    unsigned mine = 1u << entry_of(files, file)->copy_number, all = (1u << first->copy_count) - 1;
    unsigned before = atomic_load(&files->left_out);
    do
        if ((before & mine) || ((before | mine) & all) == all)
            return;
    while (!atomic_compare_exchange_weak(&files->left_out, &before, before | mine));
    log_line(LOG_WARNING, "%s: %s; this copy of the model is left out from now on, the others serve its reads", file_set_path(files, file),
             reason);
}

bool file_set_left_out(const struct file_set *files, uint32_t file) {
    return file_set_copies(files, file) > 1 && (atomic_load(&files->left_out) >> file_set_copy_number(files, file) & 1);
}

uint32_t file_set_device(const struct file_set *files, uint32_t file) {
    uint32_t other = 0;
    while (entry_of(files, other)->device != entry_of(files, file)->device)
        other++;
    return other;
}

void file_set_note_rate(struct file_set *files, uint32_t file, double bytes_per_s) {
    files->entries[file_set_device(files, file)]->bytes_per_s = bytes_per_s;
}

double file_set_rate(const struct file_set *files, uint32_t file) { return files->entries[file_set_device(files, file)]->bytes_per_s; }

/* ---- what a file is ---- */

uint32_t file_set_count(const struct file_set *files) { return atomic_load_explicit(&files->count, memory_order_acquire); }
const char *file_set_path(const struct file_set *files, uint32_t file) { return entry_of(files, file)->path; }
uint64_t file_set_size_bytes(const struct file_set *files, uint32_t file) { return entry_of(files, file)->size_bytes; }
int file_set_buffered_fd(const struct file_set *files, uint32_t file) { return entry_of(files, file)->buffered_fd; }
int file_set_direct_fd(const struct file_set *files, uint32_t file) { return atomic_load(&entry_of(files, file)->direct_fd); }
uint32_t file_set_alignment(const struct file_set *files, uint32_t file) { return entry_of(files, file)->alignment_bytes; }

void file_set_refuse_direct(struct file_set *files, uint32_t file, int system_error) {
    struct file_entry *entry = entry_of(files, file);
    atomic_store(&entry->direct_fd, -1);
    if (atomic_exchange(&entry->notice_given, true))
        return;
    /* Only now: the buffered handle also parses headers and fills mappings, which want the kernel's read-ahead. */
    (void)posix_fadvise(entry->buffered_fd, 0, 0, POSIX_FADV_RANDOM);
    log_line(LOG_NOTICE, "%s: direct reads are refused here (%s); reading through the page cache and dropping the pages behind",
             entry->path, strerror(entry->direct_error ? entry->direct_error : system_error));
}

void file_set_drop_behind(const struct file_set *files, uint32_t file, uint64_t offset_bytes, uint64_t size_bytes) {
    ASSERT(offset_bytes <= INT64_MAX && size_bytes <= INT64_MAX);
    (void)posix_fadvise(entry_of(files, file)->buffered_fd, (off_t)offset_bytes, (off_t)size_bytes, POSIX_FADV_DONTNEED);
}

enum status file_set_read(const struct file_set *files, uint32_t file, uint64_t offset_bytes, void *dst, uint64_t size_bytes,
                          struct error *err) {
    const struct file_entry *entry = entry_of(files, file);
    uint64_t end_bytes;
    if (!size_add(offset_bytes, size_bytes, &end_bytes) || end_bytes > entry->size_bytes)
        return error_set(err, STATUS_CORRUPT,
                         "%s: %" PRIu64 " bytes at offset %" PRIu64 " are needed, but the file has %" PRIu64
                         " bytes; it is cut off or damaged: fetch it again",
                         entry->path, size_bytes, offset_bytes, entry->size_bytes);
    uint64_t done = 0;
    struct read_retry retry = {0};
    while (done < size_bytes) {
        uint64_t left = size_bytes - done, pause_ns;
        ssize_t count = pread(entry->buffered_fd, (uint8_t *)dst + done, left < CALL_MAX_BYTES ? (size_t)left : CALL_MAX_BYTES,
                              (off_t)(offset_bytes + done));
        if (count > 0) {
            done += (uint64_t)count;
            retry = (struct read_retry){0};
        } else if (count == 0) {
            return error_set(err, STATUS_CORRUPT,
                             "%s: %" PRIu64 " bytes at offset %" PRIu64 " are needed, but the file ends at %" PRIu64 " now (%" PRIu64
                             " when it was opened); it was cut off while in use",
                             entry->path, size_bytes, offset_bytes, offset_bytes + done, entry->size_bytes);
        } else {
            int code = errno;
            if (!read_retry_again(&retry, code, &pause_ns))
                return error_set(err, STATUS_IO,
                                 "%s: read of %" PRIu64 " bytes at offset %" PRIu64 ": %s; check the disk and its connection", entry->path,
                                 size_bytes, offset_bytes, strerror(code));
            if (pause_ns)
                clock_sleep_ns(pause_ns);
        }
    }
    return STATUS_OK;
}

/* Whether the status of the opened file, or of what its path names now, still fits what was noted at open. */
static bool same_content(const struct file_entry *entry, const struct stat *info) {
    return info->st_dev == entry->device && info->st_ino == entry->inode && (uint64_t)info->st_size == entry->size_bytes &&
           info->st_mtim.tv_sec == entry->modified.tv_sec && info->st_mtim.tv_nsec == entry->modified.tv_nsec;
}

static enum status entry_check(const struct file_entry *entry, struct error *err) {
    struct stat opened, named;
    if (fstat(entry->buffered_fd, &opened) != 0)
        return error_set(err, STATUS_IO, "%s: cannot look at the open file: %s", entry->path, strerror(errno));
    if ((uint64_t)opened.st_size != entry->size_bytes)
        return error_set(err, STATUS_IO,
                         "%s: had %" PRIu64 " bytes when it was opened and has %" PRIu64 " now; run again with the whole file", entry->path,
                         entry->size_bytes, (uint64_t)opened.st_size);
    if (!same_content(entry, &opened))
        return error_set(err, STATUS_IO, "%s: was rewritten since it was opened; run again", entry->path);
    if (stat(entry->path, &named) != 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            return STATUS_OK;
        return error_set(err, STATUS_IO, "%s: cannot look at the file: %s", entry->path, strerror(errno));
    }
    if (!same_content(entry, &named))
        return error_set(err, STATUS_IO, "%s: was replaced by another file since it was opened; run again", entry->path);
    return STATUS_OK;
}

enum status file_set_check(const struct file_set *files, struct error *err) {
    for (uint32_t i = 0; i < file_set_count(files); i++)
        if (!file_set_left_out(files, i))
            TRY(entry_check(files->entries[i], err));
    return STATUS_OK;
}

enum status file_set_read_small(const struct file_set *files, uint32_t file, uint64_t offset_bytes, void *dst, uint64_t size_bytes,
                                struct error *err) {
    const struct file_entry *entry = entry_of(files, file);
    const uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE), begin = offset_bytes / page_bytes * page_bytes;
    (void)posix_fadvise(entry->buffered_fd, 0, 0, POSIX_FADV_RANDOM);
    enum status status = file_set_read(files, file, offset_bytes, dst, size_bytes, err);
    if (status == STATUS_OK)
        file_set_drop_behind(files, file, begin, size_round_up(offset_bytes - begin + size_bytes, page_bytes));
    if (!atomic_load(&entry->notice_given)) /* else it stays so, see file_set_refuse_direct */
        (void)posix_fadvise(entry->buffered_fd, 0, 0, POSIX_FADV_NORMAL);
    return status;
}
