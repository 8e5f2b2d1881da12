/* Copyright The Tenure Authors. SPDX-License-Identifier: Apache-2.0
 *
 * Persistent objects in ordinary memory. Each object is where malloc, a garbage collector or an arena has put it. Each
 * becomes persistent or transient by itself. In the next execution it exists again, at another address, with all
 * pointers between objects right.
 *
 * After Arnold, Kamil, "pobj: A Lightweight Persistent Objects Library", 2005, cited as [pobj section]. pobj(3) is the
 * manual. docs/pobj.md has the design and its invariants, docs/caveats.md the limits.
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
 * Words. A handle is the address that an allocation has returned. Calls that take an object want its handle, and detect
 * other addresses. An object's image is its content in the store: the bytes at its last update. Memory and image differ
 * until the next update: a program writes as it likes, and calls update when it wants. A reference is a word that holds
 * a pointer to an object; only words that the object's type declares as references are converted. A reference may point
 * into the middle of an object or just past its end. If it points to anything else, or to an object that is transient
 * when the program ends, it is NULL in the next execution, and counted (pobj_report).
 *
 * Errors. Calls that return int return POBJ_OK, which is 0, or a code below. Calls that return a pointer return NULL.
 * After a failure pobj_error() says what happened, where, and what to do. A call that fails has changed nothing, unless
 * its comment says otherwise. Nothing that was committed is lost.
 *
 * Threads. Any number of threads may make all calls at once, except pobj_init and pobj_close. Each thread has its own
 * transaction, which is aborted if the thread ends first. The library guards its own data. Threads that share objects
 * must exclude each other from them until the transaction that changes them has ended [pobj 3.3].
 *
 * Fork. A child has no access to its parent's store: calls fail.
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
  POBJ_ESTATE,  /* not initialized, initialized already, or in the child of a fork */
  POBJ_EHANDLE, /* not the handle of an object: never allocated, freed already, or an address inside one */
  POBJ_ERANGE,  /* a field or range that does not lie in the object, or the static variable */
  POBJ_ENOMEM,  /* an allocator has returned NULL */
  POBJ_ETOOBIG, /* larger than an object can be (16 GiB less 8 bytes), more types than a store can have, or a full store */
  POBJ_ETYPE,        /* an invalid descriptor, or one that differs from the stored one of this name */
  POBJ_ESTATIC,      /* a static variable that cannot be named, is smaller than the stored one, or overlaps another */
  POBJ_ETRANSACTION, /* no transaction is open, or one is open and must not be */
  POBJ_EABORTED,     /* the transaction, or the inner one, has been aborted by a nested pobj_abort: end it */
  POBJ_EUNTYPED,     /* strict: a handle lies where the object's type has no reference */
  POBJ_EREFERENCED,  /* strict: an object is freed, or made transient, that a persistent one still refers to */
  POBJ_EPROGRAM,     /* the store belongs to another program */
  POBJ_EDAMAGED,     /* the store is damaged, is no store, or has another version */
  POBJ_EIO,          /* a file cannot be opened, read or written, or is in use by another process */
  POBJ_EOPTION       /* an invalid argument */
};

/* The message of this thread's last call that failed; "" if none has. Valid until the next failure. */
const char* pobj_error(void);

/* ---- Initialization [pobj 3.5.1] ---- */

/* Ends every list of offsets. */
#define POBJ_END ((size_t)-1)

/* A memory manager. Blocks must be aligned to 8 bytes. The manager for objects is called without any lock of the
 * library. The manager for control structures is called with a lock held, and may call only pobj_finalize of this
 * library. */
typedef struct pobj_allocator {
  void* (*malloc)(size_t size);
  void* (*calloc)(size_t count, size_t size); /* NULL: malloc, then zeros */
  void (*free)(void* block);                  /* NULL: blocks are not freed, as for a garbage collector */
} pobj_allocator;

/* Flags of pobj_options. */
#define POBJ_STRICT \
  1u /* look for mistakes at every update and commit, which costs time: POBJ_EUNTYPED, POBJ_EREFERENCED */
#define POBJ_ANY_PROGRAM 2u /* open the store of another program, too, and make it this one's */

/* All zeros: the defaults. */
typedef struct pobj_options {
  const char* path;    /* the store's directory. NULL: $POBJ_STORE, or else PROGRAM.pobj in the current directory */
  const char* program; /* whose store it is. NULL: the file name of the executable */
  /* For objects. If the functions are NULL: a pool, which is faster than libc's malloc, uses less memory, and frees
   * none before pobj_close. Memory checkers need {malloc, calloc, free}, so that they see each block. */
  pobj_allocator objects;
  pobj_allocator control; /* for the library's data about objects; must be uncollectable. NULL functions: libc's */
  unsigned flags;
  size_t initial_size; /* bytes, of a new store; 0: 1 MiB */
  size_t max_size;     /* bytes that a new store can ever have, 0: 64 GiB. Costs address space only */
  size_t log_size;     /* bytes, of a new store's log; 0: 64 MiB. Grows for a transaction that needs more */
} pobj_options;

/* Opens the program's store, or makes it in the first execution. Then reconstructs the objects: recovers after a crash,
 * allocates every persistent object again, fills it from its image, converts its references, and gives every anchor its
 * value [pobj 4.3]. After an error nothing is initialized, and the store is as before. */
int pobj_init(void);
int pobj_init_with(const pobj_options* options);

/* The results of the last initialization. */
typedef struct pobj_report {
  int created;            /* 1: the first execution */
  uint64_t objects;       /* reconstructed */
  uint64_t object_bytes;  /* of these */
  uint64_t statics;       /* anchors that are bound to their variables now */
  uint64_t unbound;       /* anchors that are not bound now, or have no variable in this build; see pobj_unbound */
  uint64_t null_unknown;  /* references that are NULL because they pointed to no persistent object */
  uint64_t null_dangling; /* ... because their object had been freed */
} pobj_report;
int pobj_get_report(pobj_report* report);

/* Ends the library: gives the memory of all objects back to their allocators (except that of ad hoc calls without a
 * free) and closes the store. The program's pointers are invalid then. Fails, and changes nothing, while transactions
 * are open. After every other failure the library has ended all the same; nothing that was committed is lost, and the
 * next execution recovers it. The call is not needed: a process may just end, or crash. pobj_init can be called again afterwards. */
int pobj_close(void);

/* ---- Allocation [pobj 3.5.2] ---- */

/* Allocates a persistent object. Its memory has the content that the allocator gives it (calloc: zeros). Its image is
 * all zeros until the first update. The allocation is part of the transaction: if that aborts, the object is freed. */
void* pobj_malloc(size_t size);
void* pobj_calloc(size_t count, size_t size);
/* Allocates a transient object. It can be made persistent later. */
void* pobj_malloc_transient(size_t size);
void* pobj_calloc_transient(size_t count, size_t size);
/* Allocates ad hoc: from this memory manager, to which pobj_free returns the memory. In the next execution the object
 * is allocated by the manager that is passed to pobj_init. */
void* pobj_malloc_adhoc(size_t size, const pobj_allocator* from);
void* pobj_calloc_adhoc(size_t count, size_t size, const pobj_allocator* from);
void* pobj_malloc_transient_adhoc(size_t size, const pobj_allocator* from);

/* Frees an object and its image. A persistent object is freed when the transaction commits. Until then its handle is
 * only invalid, and an abort makes it valid again. References to it that are still stored are NULL in the next
 * execution, never another object [pobj.reference.serial]; with POBJ_STRICT the commit fails. NULL does nothing. */
int pobj_free(void* object);

/* Tells the library that a garbage collector is taking the object. Its image is freed with the next commit of any
 * thread, or by pobj_close. After a crash before that, the object exists again, unreachable. May be called at any place
 * where the collector runs finalizers, also inside of other calls of the library. Not for objects in use by an open
 * transaction. The caller frees the block, unless it is in the library's pool, where the library frees it. */
int pobj_finalize(void* object);
/* The same for the block that the memory manager returned, in the form of a finalizer of the Boehm collector. The
 * function pobj_allocator::malloc calls GC_register_finalizer_no_order(block, pobj_finalize_block, 0, 0, 0). */
void pobj_finalize_block(void* block, void* unused);

/* The number of bytes before each object's handle. */
#define POBJ_HEADER_SIZE 16u

int pobj_is_object(const void* handle); /* 1, or 0; never fails */
int pobj_is_persistent(const void* handle);
size_t pobj_size(const void* object); /* bytes; 0 if it is no object */

/* Frees every persistent object to which no anchor leads, following the images. Such objects are lost, for example by a
 * crash between two transactions [pobj 3.4]. `freed`, if not NULL, gets their number. The call is a transaction. No
 * transaction may be open, and no other thread may use the library. */
int pobj_sweep(uint64_t* freed);

/* ---- Persistency control [pobj 3.5.3] ---- */

/* Makes a transient object persistent, with its present content as the image. References to it in images that were
 * written before become right, too. Does nothing if it is persistent already. */
int pobj_persistify(void* object);
/* Makes an object transient: its image is freed. References to it are NULL in the images of others from now on, so an abort of a
 * later transaction that has updated those makes them NULL in memory, too. If it is made persistent again, objects that refer to it
 * must be updated again. */
int pobj_unpersistify(void* object);

/* ---- Types [pobj 3.5.4, 7] ---- */

/* A type, for any number of objects. An object that is larger than the type is an array of it. */
typedef struct pobj_type pobj_type;

/* Defines a type, before or after pobj_init, and more than once if needed. `references`: offsets of the reference
 * words, each a multiple of 8. `transients`: pairs of offset and length of ranges that are not stored, not followed,
 * and zero after reconstruction. Both end with POBJ_END; NULL: none. The store identifies the type by its name. Returns
 * NULL (with POBJ_ETYPE) if the store, or the program, has a different type of this name; pobj_init fails with
 * POBJ_ETYPE in the same case. */
const pobj_type* pobj_type_define(const char* name, size_t size, const size_t* references, const size_t* transients);
/* Gives an object its type. Fails with POBJ_ERANGE if the object's size is no multiple of the type's. NULL: no
 * references. */
int pobj_set_type(void* object, const pobj_type* type);

/* Declares which words of an object are references, by their offsets. All other words are none. [pobj 3.5.4] */
int pobj_ref_typify(void* object, const size_t* references);
/* Adds a reference, or removes it. `field` lies in the object. Fails with POBJ_ETYPE for objects with a defined type.
 * */
int pobj_ref_flag(void* object, void* field);
int pobj_ref_unflag(void* object, void* field);

/* ---- Updates [pobj 3.5.4, 4.4] ---- */

/* All of these calls succeed for a transient object, and change no image. Outside of any transaction each call is a
 * transaction, durable when it returns. Repeated updates in a transaction cost as much as one. */

/* Brings the image up to date. Unchanged bytes are not written. */
int pobj_update(void* object);
/* The same for `length` bytes at `field`. The cost is in proportion to `length`. */
int pobj_update_range(void* object, const void* field, size_t length);

/* Updates all objects that can be reached from `object` through references that are not transient, breadth first, each
 * once. Transient objects are not updated and not followed; with POBJ_PERSISTIFY they are made persistent first. If the
 * call fails, these are transient again. With POBJ_STRICT no image has changed then; otherwise, in an open transaction,
 * some may have changed. */
#define POBJ_PERSISTIFY 1u
int pobj_update_recursive(void* object, unsigned flags);

/* Sets bytes of an object, and of its image. */
int pobj_memcpy(void* object, void* field, const void* from, size_t length);
int pobj_memset(void* object, void* field, int value, size_t length);
/* Sets a reference, types the word as a reference, and updates it. */
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

/* Copies the image back to memory: the opposite of pobj_update. Transient fields do not change. [pobj 7] */
int pobj_restore(void* object);

/* ---- Static variables: anchors [pobj 3.5.5, 7] ---- */

/* A static variable (global, file or function scope) is stored under its module, source file and symbol. So it is found
 * in another process, at another address, and in another build. This needs the symbol table, and a symbol that no other
 * build can give to another variable. There is no such symbol: in stripped programs; for variables in functions in C,
 * which gcc numbers; for several variables of one name in one function, or in files of one name; and, except for
 * globals, in programs that are optimized when they are linked (-flto). Then calls fail with POBJ_ESTATIC, and
 * pobj_static_named gives a name. */

/* The first call sets a static pointer and stores it. The second stores it as it is. */
int pobj_static_set_ref(void* variable, void* value);
int pobj_static_update_ref(void* variable);
/* Stores a static variable of any type. `references` is as in pobj_ref_typify. Fails with POBJ_ERANGE if `size` is
 * larger than the variable, and with POBJ_ESTATIC if another anchor has some of the bytes. The stored size may grow. To
 * make it smaller, forget the anchor first. Also fails with POBJ_ESTATIC if the store has a value that the variable did
 * not get: see pobj_static_bind. */
int pobj_static_update(void* variable, size_t size, const size_t* references);

/* Gives a static variable a name that the program chooses. From now on it is stored and found under this name. Before
 * pobj_init: the variable gets its value in pobj_init. After: at once, if the store has a value of this name. If
 * `variable` is NULL, removes the name again; do this before the variable disappears. The stored value stays. Fails with
 * POBJ_ESTATIC if the stored value is bound to another variable, and if the name has the form that pobj_unbound gives to
 * symbols, MODULE:FILE:SYMBOL+OFFSET. */
int pobj_static_named(const char* name, void* variable, size_t size, const size_t* references);
/* Binds a stored anchor that has no variable to a variable, which gets its value. For libraries that are loaded after
 * pobj_init. `name` is as returned by pobj_unbound, or NULL for the variable's own name. With NULL, the call succeeds
 * and does nothing if the store has no such anchor, or if it is bound to this variable already. If `variable` is NULL,
 * unbinds the anchor; its value stays. A library stays loaded as long as a variable of it is bound, or has a name. */
int pobj_static_bind(const char* name, void* variable, size_t size);
/* Removes an anchor from the store, bound or not. The variable does not change. pobj_sweep frees the objects to which
 * only this anchor led. The call is a transaction. Fails with POBJ_ETRANSACTION while another open one has changed the
 * anchor. While it runs, calls of other threads that change, bind or forget the same anchor fail so. */
int pobj_static_forget(const char* name);
/* The name of the nth anchor that has no variable in this build: "MODULE:FILE:SYMBOL+OFFSET", or a name given by the
 * program; NULL behind the last one. Such anchors, and the objects to which they lead, stay in the store. Valid until
 * the next call of this thread. */
const char* pobj_unbound(size_t n);

/* ---- Transactions [pobj 3.5.6, 7] ---- */

/* Begins a transaction of this thread, or a nested transaction, which is part of the outer one: it is only counted. */
int pobj_start(void);
/* Begins an inner transaction [pobj 3.5.6, RVM 8]: a part of the thread's open transaction that can be undone alone. If
 * no transaction is open, begins one, as pobj_start does. Inner transactions may be in nested and in inner ones, and
 * nested ones in them, to any depth. Nothing is written to the disk before the outermost pobj_end. Fails with
 * POBJ_EABORTED if a nested pobj_abort has undone what it would be in, and with POBJ_ENOMEM or POBJ_ETOOBIG if objects
 * that are being typed word by word cannot get their types. */
int pobj_start_inner(void);
/* Ends what was begun last. Ending the outermost transaction commits: all its updates are durable, or, after a crash,
 * none. What an inner one has done is part of the outer one from now on. If the call fails with another code than
 * POBJ_EABORTED, nothing has ended: try again, or abort. After POBJ_EIO of the outermost one, which is what a log that could not be
 * written gives, every further try fails, and whether the updates are durable is known when the program runs again: it may
 * find them, though pobj_abort has taken them back in memory. */
int pobj_end(void);
/* Undoes the transaction, or the innermost inner one alone, and ends it. Objects that were updated in it get the content
 * that their images had before, when it began. Objects that were allocated in it are freed, those made persistent are
 * transient again, those freed exist again, and static variables are as before. Changes that were never updated stay. In
 * a nested transaction: undoes the innermost inner one that it is in, or else the whole transaction, and ends the nested one
 * in which it was called; those around it, up to what was undone, must still end with pobj_end. Until then, calls that
 * change images fail with POBJ_EABORTED, and so does the pobj_end of what was undone, which ends it all the same; outer
 * ones go on. If it fails with POBJ_ENOMEM, nothing was undone. */
int pobj_abort(void);
/* How many of this thread's transactions are open, nested and inner ones among them; 0: none. */
int pobj_depth(void);

#ifdef __cplusplus
}
#endif
#endif
