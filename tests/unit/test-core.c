/* SPDX-License-Identifier: Apache-2.0 */
/* The core: errors, strings, descriptors, numbers, paths, buffers, UTF-8, digests, messages. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/buf.h"
#include "core/error.h"
#include "core/fd.h"
#include "core/mem.h"
#include "core/parse.h"
#include "core/path.h"
#include "core/sha256.h"
#include "core/utf8.h"
#include "core/wire.h"

/* error */

static void test_error_set(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    assert_int_equal(err.code, ERROR_NONE);
    assert_int_equal(error_errno(&err, ENOENT, "cannot open %s", "x"), -1);
    assert_int_equal(err.code, ERROR_SYSTEM);
    assert_int_equal(err.errnum, ENOENT);
    assert_string_equal(err.message, "cannot open x: No such file or directory");
    assert_int_equal(error_hint(&err, "make it: touch %s", "x"), -1);
    assert_string_equal(err.hint, "make it: touch x");
    assert_int_equal(error_wrap(&err, "session %d", 7), -1);
    assert_string_equal(err.message, "session 7: cannot open x: No such file or directory");
    assert_string_equal(err.hint, "make it: touch x");
    assert_int_equal(err.errnum, ENOENT);
    /* A new error is wholly new. */
    assert_int_equal(error_set(&err, ERROR_LIMIT, "%d%%", 5), -1);
    assert_int_equal(err.code, ERROR_LIMIT);
    assert_int_equal(err.errnum, 0);
    assert_string_equal(err.message, "5%");
    assert_string_equal(err.hint, "");
}

static void test_error_without_value(void **state)
{
    (void)state;
    assert_int_equal(error_set(NULL, ERROR_LIMIT, "x"), -1);
    assert_int_equal(error_errno(NULL, EIO, "x"), -1);
    assert_int_equal(error_wrap(NULL, "x"), -1);
    assert_int_equal(error_hint(NULL, "x"), -1);
}

static void test_error_too_long(void **state)
{
    (void)state;
    char text[2 * ERROR_TEXT_MAX];
    struct error err = ERROR_INIT;
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    error_set(&err, ERROR_INVALID, "%s", text);
    assert_int_equal(strlen(err.message), ERROR_TEXT_MAX - 1);
    error_errno(&err, EIO, "%s", text);
    assert_int_equal(strlen(err.message), ERROR_TEXT_MAX - 1);
    error_wrap(&err, "outer");
    assert_int_equal(strlen(err.message), ERROR_TEXT_MAX - 1);
    assert_memory_equal(err.message, "outer: aaa", 10);
    error_wrap(&err, "%s", text);
    assert_int_equal(strlen(err.message), ERROR_TEXT_MAX - 1);
    error_hint(&err, "%s", text);
    assert_int_equal(strlen(err.hint), ERROR_TEXT_MAX - 1);
    /* The text of errno starts on the very last byte. */
    text[ERROR_TEXT_MAX - 1] = '\0';
    error_errno(&err, EIO, "%s", text);
    assert_string_equal(err.message, text);
}

static void test_error_names(void **state)
{
    (void)state;
    for (int i = 0; i < ERROR_CODE_MAX; i++) {
        assert_non_null(error_code_name((enum error_code)i));
        for (int k = 0; k < i; k++)
            assert_string_not_equal(error_code_name((enum error_code)i),
                                    error_code_name((enum error_code)k));
    }
    assert_string_equal(error_code_name(ERROR_LIMIT), "limit_exceeded");
    assert_string_equal(error_code_name(ERROR_CODE_MAX), "unknown");
    assert_string_equal(error_code_name((enum error_code) - 1), "unknown");
}

/* mem */

static void test_strings(void **state)
{
    (void)state;
    cleanup_strings struct strings list = {0};
    cleanup_strings struct strings copy = {0};
    strings_copy(&copy, &list);
    assert_null(copy.items);
    strings_add(&list, "one");
    strings_take(&list, xasprintf("%s%d", "two", 2));
    strings_add(&list, "");
    assert_int_equal(list.count, 3);
    assert_string_equal(list.items[1], "two2");
    assert_null(list.items[3]);
    strings_copy(&copy, &list);
    strings_release(&list);
    assert_int_equal(list.count, 0);
    assert_null(list.items);
    assert_string_equal(copy.items[0], "one");
    strings_copy(&copy, &copy);
    assert_int_equal(copy.count, 6);
    assert_string_equal(copy.items[5], "");
    assert_null(copy.items[6]);
}

static void test_memory(void **state)
{
    (void)state;
    cleanup_free char *zeroes = xcalloc(3, 5);
    for (int i = 0; i < 15; i++)
        assert_int_equal(zeroes[i], 0);
    cleanup_free void *nothing = xmalloc(0);
    assert_non_null(nothing);
    cleanup_free void *none = xcalloc(0, 0);
    assert_non_null(none);
    cleanup_free char *part = xstrndup("abcdef", 3);
    assert_string_equal(part, "abc");
    char *given = xstrdup("x");
    cleanup_free char *taken = steal_ptr(given);
    assert_null(given);
    assert_string_equal(taken, "x");
}

/* fd */

static int count_fds(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static void test_fd_ownership(void **state)
{
    (void)state;
    int before = count_fds();
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int stolen = steal_fd(&fd);
    assert_int_equal(fd, -1);
    errno = EDOM;
    {
        cleanup_close int again = stolen;
        cleanup_close int none = -1;
        (void)again;
        (void)none;
    }
    assert_int_equal(errno, EDOM);
    fd = 9999; /* not open: closing fails, errno stays */
    fd_clear(&fd);
    assert_int_equal(errno, EDOM);
    assert_int_equal(fd, -1);
    fd_clear(&fd);
    assert_int_equal(count_fds(), before);
}

static void test_fd_files(void **state)
{
    (void)state;
    char path[64], buffer[11];
    cleanup_close int file = memfd_create("test", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    assert_int_equal(fd_read_file(AT_FDCWD, path, buffer, sizeof buffer), 0);
    assert_string_equal(buffer, "");
    assert_int_equal(fd_write_all(file, "0123456789", 10), 0);
    assert_int_equal(fd_read_file(AT_FDCWD, path, buffer, sizeof buffer), 10);
    assert_string_equal(buffer, "0123456789");
    assert_int_equal(fd_read_file(AT_FDCWD, path, buffer, 10), -EFBIG);
    assert_int_equal(fd_read_file(AT_FDCWD, path, buffer, 1), -EFBIG);
    assert_int_equal(fd_read_file(AT_FDCWD, path, buffer, 0), -EFBIG);
    assert_int_equal(fd_write_file(AT_FDCWD, path, "abc"), 0);
    assert_int_equal(fd_read_file(AT_FDCWD, path, buffer, sizeof buffer), 10);
    assert_string_equal(buffer, "abc3456789");
    assert_int_equal(fd_read_file(AT_FDCWD, "/nonexistent", buffer, sizeof buffer), -ENOENT);
    assert_int_equal(fd_write_file(AT_FDCWD, "/nonexistent", "x"), -ENOENT);
    assert_int_equal(fd_read_file(AT_FDCWD, "/", buffer, sizeof buffer), -EISDIR);
    assert_int_equal(fd_write_file(AT_FDCWD, "/dev/full", "x"), -ENOSPC);
    cleanup_close int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_int_equal(fd_write_all(full, "x", 1), -ENOSPC);
    assert_int_equal(fd_write_all(-1, "x", 1), -EBADF);
}

/* More than a pipe holds, so that write(2) comes back short. */
static void test_fd_write_all_of_much(void **state)
{
    (void)state;
    enum { MUCH = 1 << 20 };
    int ends[2];
    cleanup_free char *data = xcalloc(1, MUCH);
    assert_return_code(pipe2(ends, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        _exit(fd_write_all(ends[1], data, MUCH) == 0 ? 0 : 1);
    }
    close(ends[1]);
    size_t got = 0;
    ssize_t n;
    while ((n = read(ends[0], data, 5000)) > 0)
        got += (size_t)n;
    close(ends[0]);
    int status;
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(got, MUCH);
}

static void pair(int ends[2])
{
    assert_return_code(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
}

static void test_fd_passing(void **state)
{
    (void)state;
    int before = count_fds();
    int ends[2], fds[FD_PASS_MAX], got[FD_PASS_MAX];
    char buffer[16];
    pair(ends);
    for (int i = 0; i < FD_PASS_MAX; i++)
        fds[i] = ends[i % 2];
    for (size_t n = 0; n <= FD_PASS_MAX; n++) {
        size_t count = FD_PASS_MAX;
        assert_int_equal(fd_send(ends[0], "hello", 5, fds, n), 5);
        assert_int_equal(fd_receive(ends[1], buffer, sizeof buffer, got, &count, 0), 5);
        assert_memory_equal(buffer, "hello", 5);
        assert_int_equal(count, n);
        for (size_t i = 0; i < count; i++) {
            struct stat sent, received;
            assert_true(fcntl(got[i], F_GETFD) & FD_CLOEXEC);
            fstat(fds[i], &sent);
            fstat(got[i], &received);
            assert_int_equal(sent.st_ino, received.st_ino);
            close(got[i]);
        }
    }
    assert_int_equal(fd_send(ends[0], "x", 1, fds, FD_PASS_MAX + 1), -EMSGSIZE);
    assert_int_equal(fd_send(ends[0], "", 0, NULL, 0), -EINVAL);
    assert_int_equal(fd_receive(ends[1], buffer, sizeof buffer, NULL, NULL, MSG_DONTWAIT), -EAGAIN);
    close(ends[0]);
    assert_int_equal(fd_receive(ends[1], buffer, sizeof buffer, NULL, NULL, 0), 0);
    assert_int_equal(fd_send(ends[1], "x", 1, NULL, 0), -EPIPE);
    close(ends[1]);
    assert_int_equal(count_fds(), before);
}

/* A message that does not fit gives nothing and leaves nothing open. */
static void test_fd_receive_overflow(void **state)
{
    (void)state;
    int ends[2], fds[FD_PASS_MAX], got[2] = {-7, -7};
    char buffer[4];
    size_t count;
    pair(ends);
    int before = count_fds();
    for (int i = 0; i < FD_PASS_MAX; i++)
        fds[i] = ends[0];
    for (size_t n = 1; n <= 3; n++) { /* too many descriptors, for room 0, 1, 2 */
        count = n - 1;
        fd_send(ends[0], "abc", 3, fds, n);
        assert_int_equal(fd_receive(ends[1], buffer, sizeof buffer, got, &count, 0), -EMSGSIZE);
        assert_int_equal(count, n - 1);
        assert_int_equal(count_fds(), before);
    }
    fd_send(ends[0], "abc", 3, fds, FD_PASS_MAX); /* no room given at all */
    assert_int_equal(fd_receive(ends[1], buffer, sizeof buffer, NULL, NULL, 0), -EMSGSIZE);
    count = 2; /* too many bytes, though the descriptors fit */
    fd_send(ends[0], "abcde", 5, fds, 2);
    assert_int_equal(fd_receive(ends[1], buffer, sizeof buffer, got, &count, 0), -EMSGSIZE);
    assert_int_equal(got[0], -7);
    assert_int_equal(got[1], -7);
    assert_int_equal(count_fds(), before);
    count = 2; /* and the next one is whole again */
    fd_send(ends[0], "abcd", 4, fds, 2);
    assert_int_equal(fd_receive(ends[1], buffer, sizeof buffer, got, &count, 0), 4);
    assert_int_equal(count, 2);
    close(got[0]);
    close(got[1]);
    close(ends[0]);
    close(ends[1]);
}

static bool kernel_knows_limit(rlim_t wanted)
{
    char text[4096];
    unsigned long long soft = 0;
    ssize_t size = fd_read_file(AT_FDCWD, "/proc/self/limits", text, sizeof text);
    const char *line = size > 0 ? strstr(text, "Max open files") : NULL;
    return line && sscanf(line, "Max open files %llu", &soft) == 1 && soft == wanted;
}

/* The words come also where this process can hold no more descriptors. */
static void test_fd_receive_no_room(void **state)
{
    (void)state;
    int ends[2], fds[3], got[3] = {-7, -7, -7};
    char buffer[4] = "";
    size_t count = 3;
    struct rlimit before, few;
    pair(ends);
    for (int i = 0; i < 3; i++)
        fds[i] = ends[0];
    int opened = count_fds();
    int next = dup(ends[0]);
    close(next);
    fd_send(ends[0], "abc", 3, fds, 3);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = (rlim_t)next + 2; /* two of three */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    if (!kernel_knows_limit(few.rlim_cur)) { /* valgrind keeps it to itself */
        setrlimit(RLIMIT_NOFILE, &before);
        close(ends[0]);
        close(ends[1]);
        skip();
    }
    ssize_t size = fd_receive(ends[1], buffer, sizeof buffer, got, &count, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(size, -EMFILE);
    assert_true(fd_is_bad_message(size));
    assert_string_equal(buffer, "abc");
    assert_int_equal(got[0], -7);
    assert_int_equal(count_fds(), opened);
    fd_send(ends[0], "abcd", 4, fds, 3);
    assert_int_equal(fd_receive(ends[1], buffer, sizeof buffer, got, &count, 0), 4);
    assert_int_equal(count, 3);
    for (int i = 0; i < 3; i++)
        close(got[i]);
    close(ends[0]);
    close(ends[1]);
}

/* What a peer can do that does not use fd_send(). */
static void send_raw(int sock, size_t size, const int *fds, size_t count)
{
    static char control[CMSG_SPACE(sizeof(int) * 64)] __attribute__((aligned(8)));
    char data[8] = "abcdefg";
    struct iovec part = {.iov_base = data, .iov_len = size};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = CMSG_SPACE(sizeof(int) * count)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int) * count);
    memcpy(CMSG_DATA(head), fds, sizeof(int) * count);
    assert_int_equal(sendmsg(sock, &message, 0), size);
}

static void test_fd_receive_hostile(void **state)
{
    (void)state;
    int ends[2], fds[40], got[40];
    char buffer[8];
    pair(ends);
    int before = count_fds();
    for (int i = 0; i < 40; i++)
        fds[i] = ends[0];
    size_t count = 40; /* more than FD_PASS_MAX, with room for all */
    send_raw(ends[0], 3, fds, 40);
    assert_int_equal(fd_receive(ends[1], buffer, sizeof buffer, got, &count, 0), -EMSGSIZE);
    assert_int_equal(count_fds(), before);
    count = 40; /* no bytes: looks like the end of the stream */
    send_raw(ends[0], 0, fds, 2);
    assert_int_equal(fd_receive(ends[1], buffer, sizeof buffer, got, &count, 0), -EBADMSG);
    assert_int_equal(count_fds(), before);
    close(ends[0]);
    close(ends[1]);
}

/* parse */

static void test_parse_u64(void **state)
{
    (void)state;
    uint64_t value = 42;
    static const char *const bad[] = {"", " 1", "1 ", "-1", "+1", "0x1", "1.0", "1k", "\xd9\xa1"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(parse_u64(bad[i], UINT64_MAX, &value), -EINVAL);
    assert_int_equal(parse_u64("18446744073709551616", UINT64_MAX, &value), -ERANGE);
    assert_int_equal(parse_u64("99999999999999999999999", UINT64_MAX, &value), -ERANGE);
    assert_int_equal(parse_u64("101", 100, &value), -ERANGE);
    assert_int_equal(value, 42);
    assert_int_equal(parse_u64("18446744073709551615", UINT64_MAX, &value), 0);
    assert_true(value == UINT64_MAX);
    assert_int_equal(parse_u64("00100", 100, &value), 0);
    assert_int_equal(value, 100);
}

struct number {
    const char *text;
    int rc;
    uint64_t value;
};

static void check_numbers(int (*parse)(const char *, uint64_t *), const struct number *cases,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t value = 12345;
        int rc = parse(cases[i].text, &value);
        uint64_t want = cases[i].rc == 0 ? cases[i].value : 12345;
        if (rc != cases[i].rc || value != want)
            fail_msg("'%s': %d, %llu", cases[i].text, rc, (unsigned long long)value);
    }
}

static void test_parse_size(void **state)
{
    (void)state;
    static const struct number cases[] = {
        {"0", 0, 0},
        {"4096", 0, 4096},
        {"64M", 0, 64 << 20},
        {"64m", 0, 64 << 20},
        {"64MB", 0, 64 << 20},
        {"64MiB", 0, 64 << 20},
        {"1.5G", 0, 3ULL << 29},
        {"0.001K", 0, 1},
        {"1.0009k", 0, 1024},
        {"2T", 0, 2ULL << 40},
        {"7b", 0, 7},
        {"9223372036854775807", 0, INT64_MAX},
        {"9223372036854775808", -ERANGE, 0},
        {"8388607T", 0, 8388607ULL << 40},
        {"8388608T", -ERANGE, 0},
        {"99999999999999999999", -ERANGE, 0},
        {"", -EINVAL, 0},
        {"M", -EINVAL, 0},
        {".5G", -EINVAL, 0},
        {"5.G", -EINVAL, 0},
        {"5 G", -EINVAL, 0},
        {"5GG", -EINVAL, 0},
        {"5i", -EINVAL, 0},
        {"-5G", -EINVAL, 0},
        {"1.2.3", -EINVAL, 0},
        {"1e3", -EINVAL, 0},
    };
    check_numbers(parse_size, cases, ARRAY_SIZE(cases));
}

static void test_parse_duration(void **state)
{
    (void)state;
    static const struct number cases[] = {
        {"10", 0, 10000},      {"1.5", 0, 1500},
        {"250ms", 0, 250},     {"10s", 0, 10000},
        {"2m", 0, 120000},     {"1h", 0, 3600000},
        {"0.5h", 0, 1800000},  {"0", 0, 0},
        {"1d", -EINVAL, 0},    {"", -EINVAL, 0},
        {"-1", -EINVAL, 0},    {"1 s", -EINVAL, 0},
        {"1h30m", -EINVAL, 0}, {"18446744073709551615h", -ERANGE, 0},
    };
    check_numbers(parse_duration, cases, ARRAY_SIZE(cases));
}

static void test_parse_milli(void **state)
{
    (void)state;
    static const struct number cases[] = {
        {"0.5", 0, 500},    {"2", 0, 2000},     {"0.3333", 0, 333},
        {"0.001", 0, 1},    {"", -EINVAL, 0},   {"1.", -EINVAL, 0},
        {"1s", -EINVAL, 0}, {".1", -EINVAL, 0}, {"18446744073709551615", -ERANGE, 0},
    };
    check_numbers(parse_milli, cases, ARRAY_SIZE(cases));
}

static void test_nearest_word(void **state)
{
    (void)state;
    static const char *const words[] = {"timeout", "memory", "network", "cpus", "q"};
    char endless[1000];
    memset(endless, 'm', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    assert_string_equal(nearest_word("timeuot", words, ARRAY_SIZE(words)), "timeout");
    assert_string_equal(nearest_word("mem", words, 0) ? "found" : "none", "none");
    assert_string_equal(nearest_word("memry", words, ARRAY_SIZE(words)), "memory");
    assert_string_equal(nearest_word("cpu", words, ARRAY_SIZE(words)), "cpus");
    assert_string_equal(nearest_word("cpsu", words, ARRAY_SIZE(words)), "cpus");
    assert_string_equal(nearest_word("nteowrk", words, ARRAY_SIZE(words)), "network");
    assert_string_equal(nearest_word("net", words, ARRAY_SIZE(words)), "network");
    assert_string_equal(nearest_word("cmd", (const char *const[]){"cwd", "command"}, 2), "command");
    assert_string_equal(nearest_word("command", (const char *const[]){"env", "cmd"}, 2), "cmd");
    assert_null(nearest_word("caps!", words, ARRAY_SIZE(words)));
    assert_null(nearest_word("foo", (const char *const[]){"top", "ro", "rw"}, 3));
    assert_null(nearest_word("newlaw", words, ARRAY_SIZE(words)));
    assert_null(nearest_word("elephant", words, ARRAY_SIZE(words)));
    assert_null(nearest_word("", words, ARRAY_SIZE(words)));
    assert_null(nearest_word("x", words, ARRAY_SIZE(words)));
    assert_null(nearest_word(endless, words, ARRAY_SIZE(words)));
}

/* path */

static void test_path_normalise(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"/", "/"},
        {"//", "/"},
        {"/.", "/"},
        {"/././/.", "/"},
        {"/a", "/a"},
        {"/a/", "/a"},
        {"//a//b///c//", "/a/b/c"},
        {"/a/./b/.", "/a/b"},
        {"/...", "/..."},
        {"/..a/b..", "/..a/b.."},
        {"/.a", "/.a"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        cleanup_free char *path = path_normalise(cases[i][0], NULL);
        assert_non_null(path);
        assert_string_equal(path, cases[i][1]);
    }
    static const char *const bad[] = {"", "a", "./a", "..", "/..", "/a/../b", "/a/..", "/../"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct error err = ERROR_INIT;
        assert_null(path_normalise(bad[i], &err));
        assert_int_equal(err.code, ERROR_INVALID);
    }
}

static void test_path_longest(void **state)
{
    (void)state;
    char longest[PATH_MAX + 1];
    memset(longest, 'a', sizeof longest);
    longest[0] = '/';
    longest[PATH_MAX] = '\0';
    assert_null(path_normalise(longest, NULL));
    longest[PATH_MAX - 1] = '\0';
    cleanup_free char *path = path_normalise(longest, NULL);
    assert_string_equal(path, longest);
}

static void test_path_is_below(void **state)
{
    (void)state;
    assert_true(path_is_below("/a/b", "/a"));
    assert_true(path_is_below("/a", "/a"));
    assert_true(path_is_below("/a", "/"));
    assert_true(path_is_below("/", "/"));
    assert_false(path_is_below("/ab", "/a"));
    assert_false(path_is_below("/a", "/a/b"));
    assert_false(path_is_below("/", "/a"));
}

/* buf */

static void test_buf(void **state)
{
    (void)state;
    cleanup_buf struct buf buf = BUF_INIT(10000);
    char data[3000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 7);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(buf_append(&buf, data, sizeof data), sizeof data);
    assert_int_equal(buf_append(&buf, data, sizeof data), 1000);
    assert_int_equal(buf_append(&buf, data, sizeof data), 0);
    assert_int_equal(buf.size, 10000);
    assert_true(buf.capacity <= 10000);
    for (size_t i = 0; i < buf.size; i++)
        assert_int_equal(buf.data[i], data[i % sizeof data]);
    size_t room = 77;
    assert_null(buf_reserve(&buf, 1, &room));
    assert_int_equal(room, 77);
    buf.ceiling = 5; /* lowered afterwards */
    assert_int_equal(buf_append(&buf, data, 1), 0);
    buf_release(&buf);
    assert_int_equal(buf.size, 0);
    assert_int_equal(buf_append(&buf, "abcdefgh", 8), 5);
    assert_int_equal(buf.capacity, 5);
}

static void test_buf_reserve(void **state)
{
    (void)state;
    cleanup_buf struct buf buf = BUF_INIT(SIZE_MAX);
    cleanup_buf struct buf none = BUF_INIT(0);
    size_t room;
    char *at = buf_reserve(&buf, 100, &room);
    assert_int_equal(room, 100);
    memset(at, 'x', room);
    buf.size += room;
    assert_non_null(buf_reserve(&buf, 100000, &room));
    assert_int_equal(room, 100000);
    assert_int_equal(buf.data[99], 'x');
    assert_null(buf_reserve(&buf, 0, &room));
    assert_null(buf_reserve(&none, 1, &room));
}

/* utf8 */

#define FFFD "\xEF\xBF\xBD"

static void test_utf8(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", ""},
        {"plain", "plain"},
        {"\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80", "\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"},
        {"\x80", FFFD},
        {"a\xFFz", "a" FFFD "z"},
        {"\xC0\x80", FFFD FFFD},                   /* overlong NUL */
        {"\xC1\xBF", FFFD FFFD},                   /* overlong */
        {"\xE0\x80\x80", FFFD FFFD FFFD},          /* overlong */
        {"\xED\xA0\x80", FFFD FFFD FFFD},          /* a surrogate */
        {"\xED\x9F\xBF", "\xED\x9F\xBF"},          /* the last before them */
        {"\xF4\x8F\xBF\xBF", "\xF4\x8F\xBF\xBF"},  /* U+10FFFF */
        {"\xF4\x90\x80\x80", FFFD FFFD FFFD FFFD}, /* beyond */
        {"\xF0\x8F\xBF\xBF", FFFD FFFD FFFD FFFD}, /* overlong */
        {"\xE2\x82", FFFD},                        /* cut off: one for the whole part */
        {"\xF0\x9F\x98", FFFD},
        {"\xE2\x82z", FFFD "z"},
        {"\xC3", FFFD},
        /* the example of the Unicode standard, 3.9 */
        {"a\xF1\x80\x80\xE1\x80\xC2"
         "b\x80"
         "c\x80\xBF"
         "d",
         "a" FFFD FFFD FFFD "b" FFFD "c" FFFD FFFD "d"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        size_t size = 0;
        cleanup_free char *text = utf8_repair(cases[i][0], strlen(cases[i][0]), &size);
        assert_string_equal(text, cases[i][1]);
        assert_int_equal(size, strlen(cases[i][1]));
    }
    size_t size;
    cleanup_free char *text = utf8_repair("a\0b", 3, &size);
    assert_int_equal(size, 3);
    assert_memory_equal(text, "a\0b", 4);
    cleanup_free char *empty = utf8_repair(NULL, 0, NULL);
    assert_string_equal(empty, "");
}

static size_t encode(uint32_t c, char *to)
{
    if (c < 0x80)
        return (size_t)sprintf(to, "%c", (int)c);
    if (c < 0x800)
        return (size_t)sprintf(to, "%c%c", 0xC0 | (int)(c >> 6), 0x80 | (int)(c & 63));
    if (c < 0x10000)
        return (size_t)sprintf(to, "%c%c%c", 0xE0 | (int)(c >> 12), 0x80 | (int)(c >> 6 & 63),
                               0x80 | (int)(c & 63));
    return (size_t)sprintf(to, "%c%c%c%c", 0xF0 | (int)(c >> 18), 0x80 | (int)(c >> 12 & 63),
                           0x80 | (int)(c >> 6 & 63), 0x80 | (int)(c & 63));
}

static bool is_python_space(uint32_t c)
{
    static const uint32_t spaces[] = {
        0x09,   0x0A,   0x0B,   0x0C,   0x0D,   0x1C,   0x1D,   0x1E,   0x1F,   0x20,
        0x85,   0xA0,   0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006,
        0x2007, 0x2008, 0x2009, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};
    for (size_t i = 0; i < ARRAY_SIZE(spaces); i++) {
        if (spaces[i] == c)
            return true;
    }
    return false;
}

static const char *stripped(const char *text, size_t size, size_t *ret_size)
{
    utf8_strip(&text, &size);
    *ret_size = size;
    return text;
}

/* Every character there is, alone, at both ends, and in between. */
static void test_utf8_strip_all(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < 0x110000; c++) {
        char text[16], one[5];
        size_t size;
        if (c >= 0xD800 && c < 0xE000)
            continue;
        size_t n = encode(c, one);
        bool space = is_python_space(c);
        stripped(one, n, &size);
        assert_int_equal(size, space ? 0 : n);
        memcpy(text, one, n);
        text[n] = 'x';
        memcpy(text + n + 1, one, n);
        const char *at = stripped(text, 2 * n + 1, &size);
        assert_int_equal(at - text, space ? n : 0);
        assert_int_equal(size, space ? 1 : 2 * n + 1);
        text[n] = ' ';
        memmove(text + 1, text, 2 * n + 1);
        text[0] = 'x';
        text[2 * n + 2] = 'x';
        assert_ptr_equal(stripped(text, 2 * n + 3, &size), text);
        assert_int_equal(size, 2 * n + 3);
    }
}

static void test_utf8_strip_broken(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"", ""},
        {" \t\n ", ""},
        {" \xC2", "\xC2"},                   /* the beginning of a space */
        {"\x85 ", "\x85"},                   /* the end of one */
        {"\xA0\x80\x80", "\xA0\x80\x80"},    /* ends of others */
        {" \xE2\x80 ", "\xE2\x80"},          /* most of one, and a real one behind it */
        {"\xE3\x80\x80\xE3\x80\x80", ""},    /* two */
        {"\xF0\xC2\xA0", "\xF0"},            /* a space behind a broken sequence is one */
        {"a\xE2\x80\x8B ", "a\xE2\x80\x8B"}, /* U+200B has no width, and is no space */
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        size_t size;
        const char *out = stripped(cases[i].in, strlen(cases[i].in), &size);
        assert_int_equal(size, strlen(cases[i].out));
        assert_memory_equal(out, cases[i].out, size);
    }
}

/* sha256 */

static void test_sha256_vectors(void **state)
{
    (void)state;
    static const struct {
        const char *text, *hex;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
         "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    char hex[SHA256_HEX_SIZE];
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        sha256_hex(cases[i].text, strlen(cases[i].text), hex);
        assert_string_equal(hex, cases[i].hex);
    }
    size_t size = 1000000; /* the long one of FIPS 180-4's examples */
    cleanup_free char *many = xmalloc(size);
    memset(many, 'a', size);
    sha256_hex(many, size, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* Digests of "\0", "\0\1" … chained into one, so that a fault at any length shows; the last was
   computed by another implementation. And each length in all ways of adding it in two parts. */
static void test_sha256_lengths(void **state)
{
    (void)state;
    unsigned char data[131], whole[SHA256_SIZE], parts[SHA256_SIZE];
    struct sha256 all, sha;
    char hex[SHA256_HEX_SIZE] = "";
    sha256_init(&all);
    for (size_t length = 0; length < sizeof data; length++) {
        data[length] = (unsigned char)length;
        sha256_init(&sha);
        sha256_add(&sha, data, length);
        sha256_end(&sha, whole);
        sha256_add(&all, whole, sizeof whole);
        for (size_t cut = 0; cut <= length; cut++) {
            sha256_init(&sha);
            sha256_add(&sha, data, cut);
            sha256_add(&sha, data + cut, length - cut);
            sha256_end(&sha, parts);
            assert_memory_equal(parts, whole, sizeof whole);
        }
    }
    sha256_end(&all, whole);
    for (size_t i = 0; i < sizeof whole; i++)
        sprintf(hex + 2 * i, "%02x", whole[i]);
    assert_string_equal(hex, "e5bbbecd60c3632a3455f465bfd8b079c30ef608d2bcc34227f4e5573029020e");
}

/* wire */

static void test_wire_round_trip(void **state)
{
    (void)state;
    unsigned char data[100];
    struct wire_writer w = {.data = data, .capacity = sizeof data};
    wire_put_u32(&w, 0xdeadbeef);
    wire_put_string(&w, "hello");
    wire_put_u64(&w, UINT64_MAX - 1);
    wire_put_string(&w, "");
    wire_put_string(&w, NULL);
    wire_put_u32(&w, 3);
    assert_false(w.overflow);
    struct wire_reader r = {.data = data, .left = w.size};
    assert_int_equal(wire_get_u32(&r), 0xdeadbeef);
    assert_string_equal(wire_get_string(&r, 5), "hello");
    assert_true(wire_get_u64(&r) == UINT64_MAX - 1);
    assert_string_equal(wire_get_string(&r, 0), "");
    assert_string_equal(wire_get_string(&r, 10), "");
    assert_false(wire_done(&r));
    assert_int_equal(wire_get_count(&r, 3), 3);
    assert_true(wire_done(&r));
    /* Cut anywhere, it is not whole. */
    for (size_t left = 0; left < w.size; left++) {
        struct wire_reader cut = {.data = data, .left = left};
        wire_get_u32(&cut);
        wire_get_string(&cut, 5);
        wire_get_u64(&cut);
        wire_get_string(&cut, 0);
        wire_get_string(&cut, 10);
        wire_get_count(&cut, 3);
        assert_false(wire_done(&cut));
    }
}

static void test_wire_overflow(void **state)
{
    (void)state;
    unsigned char data[11] = {0};
    struct wire_writer w = {.data = data, .capacity = 10};
    data[10] = 0x55;
    wire_put_string(&w, "12345"); /* 4 + 5 + 1: just fits */
    assert_false(w.overflow);
    assert_int_equal(w.size, 10);
    wire_put_u32(&w, 1);
    assert_true(w.overflow);
    w = (struct wire_writer){.data = data, .capacity = 10};
    wire_put_string(&w, "123456");
    assert_true(w.overflow);
    size_t size = w.size;
    wire_put_u32(&w, 1); /* would fit, but what came before is missing */
    assert_true(w.overflow);
    assert_int_equal(w.size, size);
    assert_int_equal(data[10], 0x55);
    struct wire_writer none = {0};
    wire_put_u32(&none, 1);
    assert_true(none.overflow);
}

static void check_bad_string(const void *data, size_t size, size_t max)
{
    /* On the heap and just as large, so that a sanitizer sees a read beyond it. */
    cleanup_free unsigned char *copy = xmalloc(size);
    memcpy(copy, data, size);
    struct wire_reader r = {.data = copy, .left = size};
    assert_string_equal(wire_get_string(&r, max), "");
    assert_true(r.bad);
    /* Bad it stays, whatever follows. */
    r.left = size;
    assert_int_equal(wire_get_u32(&r), 0);
    assert_int_equal(wire_get_u64(&r), 0);
    assert_int_equal(wire_get_count(&r, UINT32_MAX), 0);
    assert_string_equal(wire_get_string(&r, SIZE_MAX), "");
    assert_false(wire_done(&r));
}

static void test_wire_hostile(void **state)
{
    (void)state;
    check_bad_string("", 0, 100);
    check_bad_string("\3\0\0", 3, 100);
    check_bad_string("\0\0\0\0", 4, 100);       /* no NUL */
    check_bad_string("\3\0\0\0abc", 7, 100);    /* no NUL */
    check_bad_string("\3\0\0\0abcd", 8, 100);   /* not a NUL */
    check_bad_string("\3\0\0\0a\0c\0", 8, 100); /* NUL inside */
    check_bad_string("\3\0\0\0abc\0", 8, 2);    /* longer than allowed */
    check_bad_string("\xff\xff\xff\xff"
                     "abc\0",
                     8, SIZE_MAX);
    check_bad_string("\xfe\xff\xff\xff"
                     "abc\0",
                     8, UINT32_MAX);
    struct wire_reader r = {.data = (const unsigned char *)"\4\0\0\0", .left = 4};
    assert_int_equal(wire_get_count(&r, 3), 0);
    assert_true(r.bad);
    r = (struct wire_reader){.data = (const unsigned char *)"\4\0\0\0\0\0\0", .left = 7};
    assert_int_equal(wire_get_u64(&r), 0);
    assert_true(r.bad);
    r = (struct wire_reader){0};
    assert_true(wire_done(&r));
    assert_int_equal(wire_get_u32(&r), 0);
    assert_false(wire_done(&r));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error_set),
        cmocka_unit_test(test_error_without_value),
        cmocka_unit_test(test_error_too_long),
        cmocka_unit_test(test_error_names),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_fd_ownership),
        cmocka_unit_test(test_fd_files),
        cmocka_unit_test(test_fd_write_all_of_much),
        cmocka_unit_test(test_fd_passing),
        cmocka_unit_test(test_fd_receive_overflow),
        cmocka_unit_test(test_fd_receive_no_room),
        cmocka_unit_test(test_fd_receive_hostile),
        cmocka_unit_test(test_parse_u64),
        cmocka_unit_test(test_parse_size),
        cmocka_unit_test(test_parse_duration),
        cmocka_unit_test(test_parse_milli),
        cmocka_unit_test(test_nearest_word),
        cmocka_unit_test(test_path_normalise),
        cmocka_unit_test(test_path_longest),
        cmocka_unit_test(test_path_is_below),
        cmocka_unit_test(test_buf),
        cmocka_unit_test(test_buf_reserve),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_utf8_strip_all),
        cmocka_unit_test(test_utf8_strip_broken),
        cmocka_unit_test(test_sha256_vectors),
        cmocka_unit_test(test_sha256_lengths),
        cmocka_unit_test(test_wire_round_trip),
        cmocka_unit_test(test_wire_overflow),
        cmocka_unit_test(test_wire_hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
