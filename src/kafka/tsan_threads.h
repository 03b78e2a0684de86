/*
 * Whether this is a build with ThreadSanitizer, and the symbol by which
 * client.c makes sure that tsan_threads.c is linked then. Used by nobody
 * else; no thread, no state.
 */
#ifndef KAFKA_TSAN_THREADS_H
#define KAFKA_TSAN_THREADS_H

#if defined(__SANITIZE_THREAD__)
#define TSAN_THREADS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TSAN_THREADS 1
#endif
#endif
#ifndef TSAN_THREADS
#define TSAN_THREADS 0
#endif

#if TSAN_THREADS
extern int tsan_threads_here;
#endif

#endif
