#include "script/script_impl.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/clock.h"

/*
 * How a call is interrupted. The watchdog sets interrupt_seq and signals the
 * thread that runs the script; the handler, in that thread, arms a hook on
 * the main state and on the running coroutine; the hook raises. A standing
 * hook would cost 85 % of a call (DESIGN section 12). While the interrupted
 * call lasts, pcall, xpcall and resume raise again what they caught, so that
 * only the engine's own lua_pcall ends it. The hook removes itself in the
 * next call. SIGURG is used since its default is to be ignored and since
 * nothing else here uses it.
 *
 * Loading, and close() at the end, are bounded by a count hook instead: they
 * run for microseconds, and there may be no watchdog yet, or any more.
 */

/* ThreadSanitizer holds asynchronous signals back until the thread makes an
 * intercepted call, which a loop in Lua never does: there the watchdog arms
 * the hook itself. That is safe but for a coroutine that is freed at that
 * very moment, which is why it is not done in general. */
#if defined(__SANITIZE_THREAD__)
#define WATCH_BY_SIGNAL 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WATCH_BY_SIGNAL 0
#endif
#endif
#ifndef WATCH_BY_SIGNAL
#define WATCH_BY_SIGNAL 1
#endif

enum { LOAD_HOOK_COUNT = 1000 };

_Thread_local struct script *script_current;
static pthread_once_t handler_once = PTHREAD_ONCE_INIT;

static bool
is_interrupted(const struct script *s)
{
    uint32_t seq;

    seq = atomic_load_explicit(&s->interrupt_seq, memory_order_relaxed);
    return seq != 0 &&
           seq == atomic_load_explicit(&s->call_seq, memory_order_relaxed);
}

/* @param level whose line is told: 0 in a hook, which is no function of the
 *        stack, 1 in a function of C, for its caller's. */
static int
raise_overrun_lj(lua_State *L, const struct script *s, int level)
{
    luaL_where(L, level);
    if (s->load_over && !s->closing)
        lua_pushfstring(L, "loading took longer than load_timeout (%d ms)",
                        (int)(s->load_timeout_ns / 1000000));
    else
        lua_pushfstring(L, "the call took longer than call_timeout (%d ms)",
                        (int)(s->call_timeout_ns / 1000000));
    lua_concat(L, 2);
    return lua_error(L);
}

static void
call_hook(lua_State *L, lua_Debug *ar)
{
    struct script *s;

    (void)ar;
    s = script_of(L);
    if (is_interrupted(s))
        (void)raise_overrun_lj(L, s, 0);
    else
        script_trace_rest(L);
}

static void
load_hook(lua_State *L, lua_Debug *ar)
{
    struct script *s;

    s = script_of(L);
    if (ar->event == LUA_HOOKLINE)
        script_trace_line(L, ar);
    if (s->load_began == 0) { /* a coroutine made while loading */
        script_trace_rest(L);
        return;
    }
    if (clock_real_ns() - s->load_began >
        (s->closing ? s->call_timeout_ns : s->load_timeout_ns))
        s->load_over = true;
    if (s->load_over)
        (void)raise_overrun_lj(L, s, 0);
}

static void
arm(struct script *s)
{
    lua_State *running;

    running = atomic_load_explicit(&s->running, memory_order_relaxed);
    lua_sethook(s->L, call_hook, LUA_MASKCOUNT, 1);
    if (running != s->L)
        lua_sethook(running, call_hook, LUA_MASKCOUNT, 1);
}

static void
on_signal(int number)
{
    struct script *s;
    int saved;

    (void)number;
    saved = errno;
    s = script_current;
    if (s != NULL && is_interrupted(s))
        arm(s);
    errno = saved;
}

static void
install_handler(void)
{
    struct sigaction sa;

    memset(&sa, 0, sizeof sa);
    sa.sa_handler = on_signal;
    sa.sa_flags = SA_RESTART;
    (void)sigaction(SIGURG, &sa, NULL);
}

void
script_switch(struct script *s)
{
    sigset_t set;

    (void)pthread_once(&handler_once, install_handler);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGURG);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    script_current = s;
    /* Release: whoever reads the thread may signal it. */
    atomic_store_explicit(&s->thread, (uintptr_t)pthread_self(),
                          memory_order_release);
}

void
script_interrupt(struct script *s)
{
    uint32_t seq;
    uintptr_t thread;

    seq = atomic_load_explicit(&s->call_seq, memory_order_relaxed);
    thread = atomic_load_explicit(&s->thread, memory_order_acquire);
    if ((seq & 1) == 0 || thread == 0)
        return;
    atomic_store_explicit(&s->interrupt_seq, seq, memory_order_relaxed);
    if (WATCH_BY_SIGNAL)
        (void)pthread_kill((pthread_t)thread, SIGURG);
    else
        arm(s);
}

void
script_watch_load(struct script *s, bool on)
{
    s->load_over = false;
    s->load_began = on ? clock_real_ns() : 0;
    if (on)
        lua_sethook(s->L, load_hook, LUA_MASKCOUNT | script_trace_mask(s),
                    LOAD_HOOK_COUNT);
    else
        script_trace_rest(s->L);
}

void
script_watch_close(struct script *s, bool on)
{
    s->closing = on;
    script_watch_load(s, on);
}

/* Raise again if the call (or the load) has overrun. */
static void
check_overrun_lj(lua_State *L)
{
    struct script *s;

    s = script_of(L);
    if (s->load_over || is_interrupted(s))
        (void)raise_overrun_lj(L, s, 1);
}

static int
finish_pcall_lj(lua_State *L, int status, lua_KContext extra)
{
    check_overrun_lj(L);
    if (status != LUA_OK && status != LUA_YIELD) {
        lua_pushboolean(L, 0);
        lua_pushvalue(L, -2);
        return 2;
    }
    return lua_gettop(L) - (int)extra;
}

static int
pcall_lj(lua_State *L)
{
    int status;

    luaL_checkany(L, 1);
    lua_pushboolean(L, 1);
    lua_insert(L, 1);
    status =
        lua_pcallk(L, lua_gettop(L) - 2, LUA_MULTRET, 0, 0, finish_pcall_lj);
    return finish_pcall_lj(L, status, 0);
}

/* The handler of xpcall; upvalue: the user's. An error raised by a hook calls
 * its handler with hooks off, so an overrun must not reach user code here. */
static int
handler_lj(lua_State *L)
{
    const struct script *s;

    s = script_of(L);
    lua_settop(L, 1);
    if (s->load_over || is_interrupted(s))
        return 1;
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, 1, 1);
    return 1;
}

static int
xpcall_lj(lua_State *L)
{
    int status, n;

    n = lua_gettop(L);
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_pushvalue(L, 2);
    lua_pushcclosure(L, handler_lj, 1);
    lua_replace(L, 2);
    lua_pushboolean(L, 1);
    lua_pushvalue(L, 1);
    lua_rotate(L, 3, 2);
    status = lua_pcallk(L, n - 2, LUA_MULTRET, 2, 2, finish_pcall_lj);
    return finish_pcall_lj(L, status, 2);
}

/* What a coroutine runs: the user's function, the upvalue, in a pcall. A hook
 * that raises leaves hooks off in its thread until a pcall ends it; without one
 * here, what a coroutine that was stopped has still to close could not be
 * interrupted later. Errors go on; what is to be closed is closed before, in
 * the coroutine's own time. */
static int
finish_body_lj(lua_State *L, int status, lua_KContext extra)
{
    (void)extra;
    if (status != LUA_OK && status != LUA_YIELD)
        return lua_error(L);
    return lua_gettop(L);
}

static int
body_lj(lua_State *L)
{
    int status;

    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    status =
        lua_pcallk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, 0, finish_body_lj);
    return finish_body_lj(L, status, 0);
}

/* Push a coroutine for the function at index 1. */
static void
push_coroutine_lj(lua_State *L)
{
    lua_State *co;

    luaL_checktype(L, 1, LUA_TFUNCTION);
    co = lua_newthread(L);
    lua_pushvalue(L, 1);
    lua_pushcclosure(L, body_lj, 1);
    lua_xmove(L, co, 1);
}

static int
cocreate_lj(lua_State *L)
{
    push_coroutine_lj(L);
    return 1;
}

/* lcorolib's auxresume, with the running coroutine noted. */
static int
resume_lj(lua_State *L, lua_State *co, int narg)
{
    struct script *s;
    lua_State *before;
    int status, nres;

    check_overrun_lj(L);
    if (!lua_checkstack(co, narg)) {
        lua_pushliteral(L, "too many arguments to resume");
        return -1;
    }
    s = script_of(L);
    lua_xmove(L, co, narg);
    before = atomic_load_explicit(&s->running, memory_order_relaxed);
    atomic_store_explicit(&s->running, co, memory_order_relaxed);
    status = lua_resume(co, L, narg, &nres);
    atomic_store_explicit(&s->running, before, memory_order_relaxed);
    check_overrun_lj(L);
    if (status != LUA_OK && status != LUA_YIELD) {
        lua_xmove(co, L, 1);
        return -1;
    }
    if (!lua_checkstack(L, nres + 1)) {
        lua_pop(co, nres);
        lua_pushliteral(L, "too many results to resume");
        return -1;
    }
    lua_xmove(co, L, nres);
    return nres;
}

static int
coresume_lj(lua_State *L)
{
    lua_State *co;
    int r;

    co = lua_tothread(L, 1);
    luaL_argexpected(L, co != NULL, 1, "coroutine");
    r = resume_lj(L, co, lua_gettop(L) - 1);
    lua_pushboolean(L, r >= 0);
    if (r < 0) {
        lua_insert(L, -2);
        return 2;
    }
    lua_insert(L, -(r + 1));
    return r + 1;
}

static int
wrapped_lj(lua_State *L)
{
    lua_State *co;
    int r, status;

    co = lua_tothread(L, lua_upvalueindex(1));
    r = resume_lj(L, co, lua_gettop(L));
    if (r >= 0)
        return r;
    status = lua_status(co);
    if (status != LUA_OK && status != LUA_YIELD) {
        status = lua_resetthread(co);
        lua_xmove(co, L, 1);
    }
    if (status != LUA_ERRMEM && lua_type(L, -1) == LUA_TSTRING) {
        luaL_where(L, 1);
        lua_insert(L, -2);
        lua_concat(L, 2);
    }
    return lua_error(L);
}

static int
wrap_lj(lua_State *L)
{
    push_coroutine_lj(L);
    lua_pushcclosure(L, wrapped_lj, 1);
    return 1;
}

/* coroutine.close runs the coroutine's __close handlers: user code. */
static int
coclose_lj(lua_State *L)
{
    struct script *s;
    lua_State *before;
    int status;

    check_overrun_lj(L);
    s = script_of(L);
    before = atomic_load_explicit(&s->running, memory_order_relaxed);
    if (lua_tothread(L, 1) != NULL)
        atomic_store_explicit(&s->running, lua_tothread(L, 1),
                              memory_order_relaxed);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
    atomic_store_explicit(&s->running, before, memory_order_relaxed);
    check_overrun_lj(L);
    return status == LUA_OK ? lua_gettop(L) : lua_error(L);
}

void
script_watch_open_lj(struct script *s)
{
    static const luaL_Reg base[] = {
        {"pcall", pcall_lj}, {"xpcall", xpcall_lj}, {NULL, NULL}};
    static const luaL_Reg coroutine[] = {{"create", cocreate_lj},
                                         {"resume", coresume_lj},
                                         {"wrap", wrap_lj},
                                         {NULL, NULL}};
    lua_State *L = s->L;

    lua_pushglobaltable(L);
    luaL_setfuncs(L, base, 0);
    (void)lua_getfield(L, -1, LUA_COLIBNAME);
    luaL_setfuncs(L, coroutine, 0);
    (void)lua_getfield(L, -1, "close");
    lua_pushcclosure(L, coclose_lj, 1);
    lua_setfield(L, -2, "close");
    lua_pop(L, 2);
}
