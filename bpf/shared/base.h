// What every header of bpf/shared stands on: integer types, inlining, byte
// order, unaligned big-endian access to packets, atomics, and the running
// difference of an Internet checksum. Plain C for BPF C, C and C++20; knows no
// other header of ours.
#ifndef SLICE_BPF_SHARED_BASE_H
#define SLICE_BPF_SHARED_BASE_H

#include <stddef.h>
#include <stdint.h>
#ifndef __bpf__
#include <string.h>
#endif

#ifdef __bpf__
#define SLICE_INLINE static inline __attribute__((always_inline))
// A function of its own in BPF, which the verifier checks once and not once for
// every path that calls it: pointers come with the size of their type and may be
// null, scalars may be anything.
#define SLICE_VERIFIED_ONCE __attribute__((noinline))
#else
#define SLICE_INLINE static inline
#define SLICE_VERIFIED_ONCE static inline
#endif

#ifdef __cplusplus
#define SLICE_STATIC_ASSERT(condition, text) static_assert(condition, text)
#else
#define SLICE_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#endif

#define SLICE_LIKELY(x) __builtin_expect(!!(x), 1)
#define SLICE_UNLIKELY(x) __builtin_expect(!!(x), 0)

// Keeps the compiler from recomputing a packet pointer after its bounds check,
// which the verifier would not recognise; nothing in user space.
#ifdef __bpf__
#define SLICE_HIDE(variable) __asm__ volatile("" : "+r"(variable))
#else
#define SLICE_HIDE(variable) ((void)(variable))
#endif

// `value & mask`, also where the compiler knows that the mask changes nothing: not every verifier
// knows it, and the oldest that we serve (Linux 6.1) sees less than the newest.
SLICE_INLINE uint32_t slice_masked(uint32_t value, uint32_t mask) {
  SLICE_HIDE(value);
  return value & mask;
}

// --- Byte order and unaligned access -----------------------------------------
// Packets are aligned to 2 bytes only. BPF loads unaligned words directly;
// user space copies, which compiles to the same and is defined C.

typedef uint16_t __attribute__((may_alias)) slice_u16_alias;
typedef uint32_t __attribute__((may_alias)) slice_u32_alias;
typedef uint64_t __attribute__((may_alias)) slice_u64_alias;

SLICE_INLINE uint16_t slice_load16(const void* p) {
#ifdef __bpf__
  return *(const slice_u16_alias*)p;
#else
  uint16_t v;
  memcpy(&v, p, sizeof v);
  return v;
#endif
}

SLICE_INLINE uint32_t slice_load32(const void* p) {
#ifdef __bpf__
  return *(const slice_u32_alias*)p;
#else
  uint32_t v;
  memcpy(&v, p, sizeof v);
  return v;
#endif
}

SLICE_INLINE uint64_t slice_load64(const void* p) {
#ifdef __bpf__
  return *(const slice_u64_alias*)p;
#else
  uint64_t v;
  memcpy(&v, p, sizeof v);
  return v;
#endif
}

SLICE_INLINE void slice_store16(void* p, uint16_t v) {
#ifdef __bpf__
  *(slice_u16_alias*)p = v;
#else
  memcpy(p, &v, sizeof v);
#endif
}

SLICE_INLINE void slice_store32(void* p, uint32_t v) {
#ifdef __bpf__
  *(slice_u32_alias*)p = v;
#else
  memcpy(p, &v, sizeof v);
#endif
}

SLICE_INLINE void slice_store64(void* p, uint64_t v) {
#ifdef __bpf__
  *(slice_u64_alias*)p = v;
#else
  memcpy(p, &v, sizeof v);
#endif
}

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define SLICE_BE16(v) ((uint16_t)__builtin_bswap16((uint16_t)(v)))
#define SLICE_BE32(v) ((uint32_t)__builtin_bswap32((uint32_t)(v)))
#define SLICE_BE64(v) ((uint64_t)__builtin_bswap64((uint64_t)(v)))
#define SLICE_LE32(v) ((uint32_t)(v))
#define SLICE_LE64(v) ((uint64_t)(v))
#else
#define SLICE_BE16(v) ((uint16_t)(v))
#define SLICE_BE32(v) ((uint32_t)(v))
#define SLICE_BE64(v) ((uint64_t)(v))
#define SLICE_LE32(v) ((uint32_t)__builtin_bswap32((uint32_t)(v)))
#define SLICE_LE64(v) ((uint64_t)__builtin_bswap64((uint64_t)(v)))
#endif
// Two 32-bit words that follow one another on the wire, as slice_load64 sees them.
#define SLICE_WIRE64(a, b) SLICE_BE64((uint64_t)(a) << 32 | (b))

SLICE_INLINE uint16_t slice_be16(const void* p) {
  return SLICE_BE16(slice_load16(p));
}
SLICE_INLINE uint32_t slice_be32(const void* p) {
  return SLICE_BE32(slice_load32(p));
}
SLICE_INLINE uint64_t slice_be64(const void* p) {
  return SLICE_BE64(slice_load64(p));
}
SLICE_INLINE void slice_put_be32(void* p, uint32_t v) {
  slice_store32(p, SLICE_BE32(v));
}
SLICE_INLINE void slice_put_be64(void* p, uint64_t v) {
  slice_store64(p, SLICE_BE64(v));
}

// --- Checksums -----------------------------------------------------------------
// RFC 1624: a checksum is moved by the sum of what changed. `sum` collects
// ~old + new of 32-bit words in memory order; words must start at an even
// offset from the checksum's first byte. User space passes a sum it ignores.

SLICE_INLINE void slice_csum_change32(uint64_t* sum, uint32_t old_word, uint32_t new_word) {
  *sum += (uint64_t)(uint32_t)~old_word + new_word;
}

// Stores the word `v` (memory order) at p and notes the change.
SLICE_INLINE void slice_replace32(uint8_t* p, uint32_t v, uint64_t* sum) {
  slice_csum_change32(sum, slice_load32(p), v);
  slice_store32(p, v);
}

// Stores two words (memory order, one 64-bit value) at p and notes the change.
SLICE_INLINE void slice_replace64(uint8_t* p, uint64_t v, uint64_t* sum) {
  uint64_t old_value = ~slice_load64(p);
  *sum += (old_value >> 32) + (uint32_t)old_value + (v >> 32) + (uint32_t)v;
  slice_store64(p, v);
}

// Folds a sum below 2^47 into 16 bits, as one's complement addition does: the
// remainder by 65535, with 65535 for its multiples but 0. With sum = 65535 q + r,
// sum times k below is q (2^64 - 1) + r k, so r k - q modulo 2^64: r stands in the
// upper 16 bits, since q < 2^32 borrows nothing from them; when r is 0, -q has 65535 there.
#define SLICE_CSUM_LANES 0x0001000100010001ULL
SLICE_INLINE uint16_t slice_csum_fold(uint64_t sum) {
  return (uint16_t)(sum * SLICE_CSUM_LANES >> 48);
}

// Whether `sum` is a multiple of 65535, the zero of one's complement: the product
// with the inverse of 65535 modulo 2^64 is the quotient, small only if it is whole.
SLICE_INLINE int slice_csum_is_zero(uint64_t sum) {
  return 0 - sum * SLICE_CSUM_LANES <= SLICE_CSUM_LANES;
}

// The checksum field (memory order) after the changes in `sum`; RFC 1624 eqn 3.
SLICE_INLINE uint16_t slice_csum_apply(uint16_t check, uint64_t sum) {
  return (uint16_t)~slice_csum_fold((uint64_t)(uint16_t)~check + sum);
}

// The same for UDP, where 0 means "none" and 65535 stands for it: a difference
// kept positive, whose remainder by 65535 folding never gives as 0.
SLICE_INLINE uint16_t slice_csum_apply_udp(uint16_t check, uint64_t sum) {
  return slice_csum_fold((65535ULL << 26) + check - sum);
}

// --- Atomics -------------------------------------------------------------------
// The words below are shared by several processors and by XDP and user space.

// Makes *p `desired` when it is `expected`; returns whether it was. Full barrier.
SLICE_INLINE int slice_compare_swap32(uint32_t* p, uint32_t expected, uint32_t desired) {
  return __sync_val_compare_and_swap(p, expected, desired) == expected;
}

// Read and written whole, in no order with others. BPF has no word for it: there a volatile access is one.
SLICE_INLINE uint32_t slice_load_relaxed32(const uint32_t* p) {
#if defined(__bpf__)
  return *(const volatile uint32_t*)p;
#else
  return __atomic_load_n(p, __ATOMIC_RELAXED);
#endif
}
SLICE_INLINE uint64_t slice_load_relaxed64(const uint64_t* p) {
#if defined(__bpf__)
  return *(const volatile uint64_t*)p;
#else
  return __atomic_load_n(p, __ATOMIC_RELAXED);
#endif
}
SLICE_INLINE void slice_store_relaxed32(uint32_t* p, uint32_t value) {
#if defined(__bpf__)
  *(volatile uint32_t*)p = value;
#else
  __atomic_store_n(p, value, __ATOMIC_RELAXED);
#endif
}
SLICE_INLINE void slice_store_relaxed64(uint64_t* p, uint64_t value) {
#if defined(__bpf__)
  *(volatile uint64_t*)p = value;
#else
  __atomic_store_n(p, value, __ATOMIC_RELAXED);
#endif
}

// Orders earlier loads and stores before later ones, except a store before a
// load. BPF has no fence instruction: on x86, which never reorders these, it
// is for the compiler only; elsewhere an atomic operation on `word` is the fence.
SLICE_INLINE void slice_order(uint32_t* word) {
#if !defined(__bpf__)
  (void)word;
  __atomic_thread_fence(__ATOMIC_ACQ_REL);
#elif defined(__TARGET_ARCH_x86)
  (void)word;
  __asm__ volatile("" ::: "memory");
#else
  (void)__sync_fetch_and_add(word, 0);
#endif
}

// Behind everything before it: whoever sees `value` there sees that, too.
SLICE_INLINE void slice_store_release32(uint32_t* p, uint32_t value) {
#if defined(__bpf__)
  slice_order(p);
  *(volatile uint32_t*)p = value;
#else
  __atomic_store_n(p, value, __ATOMIC_RELEASE);
#endif
}

// --- Small mathematics -----------------------------------------------------------

// Spreads numbers that count up, as the lower halves of fileIDs do, over 16 bits
// (multiplicative hashing by the golden ratio); a third of slice_mix64's cost.
// The upper half of `x` has no part in it.
SLICE_INLINE uint32_t slice_spread32(uint64_t x) {
  return (uint32_t)x * 0x61c88647u >> 16;
}

// The finaliser of splitmix64: every output bit depends on every input bit.
SLICE_INLINE uint64_t slice_mix64(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  x ^= x >> 31;
  return x;
}

#endif  // SLICE_BPF_SHARED_BASE_H
