/*
 * Run a fuzz target over its seeds, without a fuzzer: what make check does.
 *
 * The seeds lie in tests/fuzz/seeds/FUZZ_NAME; further files may be named as
 * arguments (an input that a fuzzer found).
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PATH_SIZE = 4096, INPUT_MAX = 16 << 20 };

/* Read a file and run the target over it; false if it cannot be read. */
static int
replay(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = malloc(INPUT_MAX);
    size_t n;

    if (f == NULL || data == NULL) {
        perror(path);
        if (f != NULL)
            (void)fclose(f);
        free(data);
        return 0;
    }
    n = fread(data, 1, INPUT_MAX, f);
    (void)fclose(f);
    (void)LLVMFuzzerTestOneInput(data, n);
    free(data);
    return 1;
}

int
main(int argc, char **argv)
{
    const char *top = getenv("top_srcdir");
    char dir[PATH_SIZE], path[2 * PATH_SIZE];
    struct dirent *d;
    int passed = 0, failed = 0, i;
    DIR *seeds;

    (void)snprintf(dir, sizeof dir, "%s/tests/fuzz/seeds/%s",
                   top != NULL ? top : ".", FUZZ_NAME);
    seeds = opendir(dir);
    if (seeds == NULL) {
        perror(dir);
        return 1;
    }
    while ((d = readdir(seeds)) != NULL) {
        if (d->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", dir, d->d_name);
        if (replay(path))
            passed++;
        else
            failed++;
    }
    (void)closedir(seeds);
    for (i = 1; i < argc; i++) {
        if (replay(argv[i]))
            passed++;
        else
            failed++;
    }
    (void)printf("%d passed, %d failed, 0 skipped\n", passed, failed);
    return failed != 0 || passed == 0;
}
