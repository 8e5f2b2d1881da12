/* Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Persistent objects in ordinary memory: each lives where malloc, a garbage collector or an arena has put it, becomes
 * persistent or transient by itself, and is there again in the next execution, at another address, with all pointers
 * between objects right.
 *
 * After Arnold, Kamil, "pobj: A Lightweight Persistent Objects Library", 2005, cited as [pobj section]. pobj(3) is the
 * manual; docs/pobj.md has the design and its invariants, docs/caveats.md the limits.
 *
 *     typedef struct node { struct node* next; int value; } node;
 *     static const size_t node_references[] = {offsetof(node, next), POBJ_END};
 *     static node* list;                                     // an anchor
 *
 *     pobj_init();                                           // list is what it was in the execution before
 *     pobj_start();
 *     node* n = pobj_malloc(sizeof(node));
 *     pobj_ref_typify(n, node_references);
 *     n->value = 7;
 *     n->next = list;
 *     pobj_update(n);
 *     pobj_static_set_ref(&list, n);
 *     pobj_end();                                            // durable here
 *
 * Words. A handle is the address that an allocation has returned; calls that take an object want its handle and find out
 * if it is none. An object's image is what the store has of it: the bytes as of its last update. Memory and image differ
 * until the next update: a program writes as it likes, and says when. A reference is a word that holds a pointer to an
 * object; only words that the object's type calls references are converted. A reference may point into the middle of an
 * object or just past its end. One that points to anything else, or to an object that is transient when the program ends,
 * is NULL in the next execution, and counted (pobj_report).
 *
 * Errors. Calls that return int return POBJ_OK, 0, or a code below; those that return a pointer return NULL. After a
 * failure pobj_error() says what happened, where, and what to do. A call that fails has changed nothing, save where said
 * otherwise, and nothing that was committed is lost.
 *
 * Threads. All calls but pobj_init and pobj_close may be made by any number of threads at once; each thread has a
 * transaction of its own, which is aborted if the thread ends before it. The library guards what is its own; threads that
 * share objects must keep each other out of them until the transaction that changes them has ended [pobj 3.3].
 *
 * Fork. A child has no part in the store of its parent: calls fail.
 */
#ifndef TENURE_POBJ_H
#define TENURE_POBJ_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Errors ---- */

enum pobj_code {
  POBJ_OK = 0,
  POBJ_ESTATE,       /* not initialized, initialized already, or in the child of a fork */
  POBJ_EHANDLE,      /* not the handle of an object: never allocated, freed already, or an address inside of one */
  POBJ_ERANGE,       /* a field or range that does not lie in the object, or the static variable */
  POBJ_ENOMEM,       /* an allocator has returned NULL */
  POBJ_ETOOBIG,      /* larger than an object can be (16 GiB), more types than a store can have, or a full store */
  POBJ_ETYPE,        /* a descriptor that makes no sense, or differs from the stored one of this name */
  POBJ_ESTATIC,      /* a static variable that cannot be named, is smaller than the stored one, or overlaps another */
  POBJ_ETRANSACTION, /* no transaction is open, or one is that must not be */
  POBJ_EABORTED,     /* the transaction has been aborted by a nested pobj_abort: end it */
  POBJ_EUNTYPED,     /* strict: a handle lies where the object's type has no reference */
  POBJ_EREFERENCED,  /* strict: an object is freed, or made transient, that a persistent one still refers to */
  POBJ_EPROGRAM,     /* the store belongs to another program */
  POBJ_EDAMAGED,     /* the store is damaged, or no store, or of another version */
  POBJ_EIO,          /* a file cannot be opened, read or written; is used by another process */
  POBJ_EOPTION       /* an argument that makes no sense */
};

/* What the last call of this thread that failed has to say, "" if none has. Valid until the next failure. */
const char* pobj_error(void);

/* ---- Initialization [pobj 3.5.1] ---- */

/* Ends every list of offsets. */
#define POBJ_END ((size_t)-1)

/* A memory manager. Blocks must be aligned to 8 bytes. That for objects is called without any lock of the library; that for
 * control structures with one, and may call nothing of the library but pobj_finalize. */
typedef struct pobj_allocator {
  void* (*malloc)(size_t size);
  void* (*calloc)(size_t count, size_t size); /* NULL: malloc, then zeros */
  void (*free)(void* block);                  /* NULL: blocks are left alone, as a garbage collector wants it */
} pobj_allocator;

/* Flags of pobj_options. */
#define POBJ_STRICT \
  1u /* look for mistakes at every update and commit, which costs time: POBJ_EUNTYPED, POBJ_EREFERENCED */
#define POBJ_ANY_PROGRAM 2u /* open the store of another program, too, and make it this one's */

/* All zeros: the defaults. */
typedef struct pobj_options {
  const char* path;    /* the store's directory. NULL: $POBJ_STORE, or else PROGRAM.pobj in the current directory */
  const char* program; /* whose store it is. NULL: the file name of the executable */
  /* For objects. NULL functions: a pool, which is faster than libc's malloc, uses less memory, and gives none back before
   * pobj_close; {malloc, calloc, free} for blocks that memory checkers watch. */
  pobj_allocator objects;
  pobj_allocator control; /* for what the library keeps of objects; must be uncollectable. NULL functions: libc's */
  unsigned flags;
  size_t initial_size; /* bytes, of a new store; 0: 1 MiB */
  size_t max_size;     /* bytes that a new store can ever have, 0: 64 GiB. Costs address space only */
  size_t log_size;     /* bytes, of a new store's log; 0: 64 MiB. Grows for a transaction that needs more */
} pobj_options;

/* Opens the program's store, or makes it in the first execution; then reconstructs: recovers after a crash, allocates
 * every persistent object anew, fills it from its image, converts its references, and gives every anchor its value
 * [pobj 4.3]. After an error nothing is initialized, and the store is as it was. */
int pobj_init(void);
int pobj_init_with(const pobj_options* options);

/* What the last initialization found. */
typedef struct pobj_report {
  int created;            /* 1: the first execution */
  uint64_t objects;       /* reconstructed */
  uint64_t object_bytes;  /* of these */
  uint64_t statics;       /* anchors that are bound to their variables, now */
  uint64_t unbound;       /* anchors that have no variable in this build, or are unbound, now; see pobj_unbound */
  uint64_t null_unknown;  /* references that are NULL because they pointed to what is no persistent object */
  uint64_t null_dangling; /* ... because the object they pointed to had been freed */
} pobj_report;
int pobj_get_report(pobj_report* report);

/* Ends the library: gives the memory of all objects back to the allocators they came from (not those of ad hoc calls
 * without a free) and closes the store. The program's pointers dangle then. Fails, and changes nothing, while
 * transactions are open. Not needed: a process may just end, or crash. pobj_init works again afterwards. */
int pobj_close(void);

/* ---- Allocation [pobj 3.5.2] ---- */

/* A persistent object. Its memory is as the allocator gives it (calloc: zeros); its image is all zeros until the first
 * update. Part of the transaction: if that aborts, the object is freed. */
void* pobj_malloc(size_t size);
void* pobj_calloc(size_t count, size_t size);
/* An object that is transient: it can be made persistent later. */
void* pobj_malloc_transient(size_t size);
void* pobj_calloc_transient(size_t count, size_t size);
/* Ad hoc: from this memory manager, to which pobj_free gives it back. In the next execution it is made by the one that
 * pobj_init is given. */
void* pobj_malloc_adhoc(size_t size, const pobj_allocator* from);
void* pobj_calloc_adhoc(size_t count, size_t size, const pobj_allocator* from);
void* pobj_malloc_transient_adhoc(size_t size, const pobj_allocator* from);

/* Frees an object and its image. That of a persistent object happens when the transaction commits: until then it is only
 * no handle any more, and an abort makes it one again. References to it that are still stored are NULL in the next
 * execution, never another object [pobj.reference.serial]; with POBJ_STRICT the commit fails. NULL does nothing. */
int pobj_free(void* object);

/* Tells that a garbage collector is taking the object: its image is freed with the next commit of any thread, or
 * pobj_close; a crash before that brings the object back, unreachable. May be called wherever the collector runs
 * finalizers, also inside of other calls of the library. Not for objects in use by an open transaction. The block is left to
 * who takes it; one of the library's pool goes back there. */
int pobj_finalize(void* object);
/* The same with the block that the memory manager gave, in the shape of a finalizer of the Boehm collector:
 * GC_register_finalizer_no_order(block, pobj_finalize_block, 0, 0, 0) in the function that pobj_allocator::malloc is. */
void pobj_finalize_block(void* block, void* unused);

/* Bytes that each object has in front of its handle. */
#define POBJ_HEADER_SIZE 16u

int pobj_is_object(const void* handle); /* 1, or 0; never fails */
int pobj_is_persistent(const void* handle);
size_t pobj_size(const void* object); /* bytes; 0 if it is no object */

/* Frees every persistent object that no anchor leads to, going by the images: what a program has lost, as through a crash
 * between two transactions [pobj 3.4]. `freed`, if not NULL, gets their number. A transaction of its own; none must be
 * open, and no other thread may use the library. */
int pobj_sweep(uint64_t* freed);

/* ---- Persistency control [pobj 3.5.3] ---- */

/* Makes a transient object persistent, with its present content as the image. References to it in images that were
 * written before become right, too. Nothing happens if it is persistent already. */
int pobj_persistify(void* object);
/* Makes it transient: its image goes. What refers to it must be updated anew if it is made persistent again. */
int pobj_unpersistify(void* object);

/* ---- Types [pobj 3.5.4, 7] ---- */

/* A type, for as many objects as wanted. An object that is larger than the type is an array of it. */
typedef struct pobj_type pobj_type;

/* Makes a type known: before or after pobj_init, again if need be. `references`: offsets of the reference words, each a
 * multiple of 8. `transients`: pairs of offset and length of ranges that are not stored, not followed, and zero after
 * reconstruction. Both end with POBJ_END; NULL: none. The name is what the store knows it by: NULL (with POBJ_ETYPE) if
 * the store, or the program, has a type of this name that is different; pobj_init fails with POBJ_ETYPE likewise. */
const pobj_type* pobj_type_define(const char* name, size_t size, const size_t* references, const size_t* transients);
/* Gives an object its type; POBJ_ERANGE if its size is no multiple of the type's. NULL: no references. */
int pobj_set_type(void* object, const pobj_type* type);

/* Says which words of an object are references, by their offsets; there are no others. [pobj 3.5.4] */
int pobj_ref_typify(void* object, const size_t* references);
/* Adds one, or takes it away. `field` lies in the object. Not for objects with a type that was defined (POBJ_ETYPE). */
int pobj_ref_flag(void* object, void* field);
int pobj_ref_unflag(void* object, void* field);

/* ---- Updates [pobj 3.5.4, 4.4] ---- */

/* All of these do nothing, successfully, to the image of a transient object. Outside of any transaction each is one of its
 * own, durable when it returns. Repeated updates in a transaction cost once. */

/* Brings the image up to date. What has not changed is not written. */
int pobj_update(void* object);
/* The same for `length` bytes at `field`: costs in proportion to them. */
int pobj_update_range(void* object, const void* field, size_t length);

/* For all objects that can be reached from `object` through references that are not transient, breadth first, each once.
 * Transient objects are not processed and not followed; with POBJ_PERSISTIFY they are made persistent first. If it fails,
 * they are transient again; with POBJ_STRICT no image has changed, and otherwise, in an open transaction, some may have. */
#define POBJ_PERSISTIFY 1u
int pobj_update_recursive(void* object, unsigned flags);

/* Sets bytes of an object, and their image. (After POBJ_EUNTYPED memory is set, and the image is not.) */
int pobj_memcpy(void* object, void* field, const void* from, size_t length);
int pobj_memset(void* object, void* field, int value, size_t length);
/* Sets a reference, types the word as one, and updates it. */
int pobj_set_ref(void* object, void* field, void* value);
/* Set a field, type its word as no reference, and update it. */
int pobj_set_char(void* object, char* field, char value);
int pobj_set_uchar(void* object, unsigned char* field, unsigned char value);
int pobj_set_short(void* object, short* field, short value);
int pobj_set_ushort(void* object, unsigned short* field, unsigned short value);
int pobj_set_int(void* object, int* field, int value);
int pobj_set_uint(void* object, unsigned* field, unsigned value);
int pobj_set_long(void* object, long* field, long value);
int pobj_set_ulong(void* object, unsigned long* field, unsigned long value);
int pobj_set_llong(void* object, long long* field, long long value);
int pobj_set_ullong(void* object, unsigned long long* field, unsigned long long value);
int pobj_set_size(void* object, size_t* field, size_t value);
int pobj_set_float(void* object, float* field, float value);
int pobj_set_double(void* object, double* field, double value);

/* Brings memory back to the image: the opposite of pobj_update. Transient fields stay as they are. [pobj 7] */
int pobj_restore(void* object);

/* ---- Static variables: anchors [pobj 3.5.5, 7] ---- */

/* A static variable (global, file or function scope) is stored under its module, source file and symbol, so that it is
 * found in another process, at another address, and in another build. That needs the symbol table, and a symbol by which no
 * other build can mean another variable. There is none in stripped programs; for variables in functions in C, which gcc
 * numbers; for several of one name in one function, or in files of one name; and, but for globals, in programs that are
 * optimized when they are linked (-flto): then calls fail with POBJ_ESTATIC, and pobj_static_named gives a name. */

/* Sets a static pointer and stores it; stores it as it is. */
int pobj_static_set_ref(void* variable, void* value);
int pobj_static_update_ref(void* variable);
/* Stores a static variable of any type; `references` as in pobj_ref_typify. More bytes than the variable has fail with
 * POBJ_ERANGE, bytes of another anchor with POBJ_ESTATIC. What is stored may grow; for less, the anchor is forgotten first.
 * Fails with POBJ_ESTATIC, too, if the store has a value that the variable has not got: pobj_static_bind. */
int pobj_static_update(void* variable, size_t size, const size_t* references);

/* Gives a static variable a name of the program's own, by which it is stored from now on and found. Before pobj_init: the
 * variable gets its value there. After: at once, if the store has something of this name. A NULL variable takes the name
 * away again, before the variable goes; what was stored under it stays. */
int pobj_static_named(const char* name, void* variable, size_t size, const size_t* references);
/* Binds a stored anchor that has no variable to one, which gets its value: `name` is as pobj_unbound tells it, or NULL for
 * the variable's own; then nothing happens, successfully, if the store has none, or it is bound to the variable already.
 * For libraries that are loaded after pobj_init. With a NULL variable the anchor is unbound: its value stays. A library stays
 * loaded as long as a variable of it is bound, or has a name. */
int pobj_static_bind(const char* name, void* variable, size_t size);
/* Takes an anchor out of the store, bound or not; the variable stays as it is. What only it leads to is swept by
 * pobj_sweep. A transaction of its own. */
int pobj_static_forget(const char* name);
/* The name of the nth anchor that has no variable in this build, "MODULE:FILE:SYMBOL+OFFSET" or one given by the program,
 * and NULL behind the last. Such anchors, and what they lead to, stay in the store. Valid until the next call of this
 * thread. */
const char* pobj_unbound(size_t n);

/* ---- Transactions [pobj 3.5.6, 7] ---- */

/* Begins a transaction of this thread, or a nested one, which is part of it. */
int pobj_start(void);
/* Ends the innermost one. That of the outermost commits: all its updates are durable, or, after a crash, none. If it fails
 * the transaction is still open: try again, or abort. */
int pobj_end(void);
/* Undoes the transaction: objects updated in it have the content of their images from before, those allocated in it are
 * freed, those made persistent are transient again, those freed are there again, and static variables are as before. What
 * was written and never updated stays. In a nested one: all of the transaction is undone, and what encloses it must end;
 * until then, calls that change images fail with POBJ_EABORTED, and so does the outermost pobj_end. */
int pobj_abort(void);
/* How deep this thread's transactions are nested; 0: none is open. */
int pobj_depth(void);

#ifdef __cplusplus
}
#endif
#endif
