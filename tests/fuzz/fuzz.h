/*
 * What fuzz targets share: the entry point and a check that ends the process.
 *
 * A target is one file fuzz_NAME.c with LLVMFuzzerTestOneInput(). Built with
 * --enable-fuzz it is a libFuzzer program; in make check replay.c runs it over
 * the seeds. Thread: one.
 */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/** Run the target over one input. @return 0 always. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* End the process where a promise does not hold; a fuzzer keeps the input. */
#define FUZZ_CHECK(cond)                                                       \
    do {                                                                       \
        if (!(cond)) {                                                         \
            (void)fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__,       \
                          __LINE__, #cond);                                    \
            abort();                                                           \
        }                                                                      \
    } while (0)

#endif
