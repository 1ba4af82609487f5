/* The inside of the device list: what device.c and pool.c share.  Prefix tn__devices_. */
#ifndef TN_DEVICE_DEVICES_H
#define TN_DEVICE_DEVICES_H
#include "device/device.h"

enum { TN__MAX_DEVICES = 64, TN__SIZE_CLASSES = 256 };

/* A device and its freed blocks by size class. */
typedef struct tn__device_slot {
  tn__device device; /* first: a tn__device * is a tn__device_slot * */
  tn__buffer *freed[TN__SIZE_CLASSES];
} tn__device_slot;

/* A storage among all there ever were: ids are used again. */
typedef struct tn__birth {
  int64_t id;
  uint64_t serial; /* of its node */
} tn__birth;

typedef struct tn__storage_entry {
  tn__buffer *buffer; /* NULL: the id is free */
  int64_t next_free;  /* the next free id, -1 at the end */
  uint64_t serial;
  tn__birth *from;    /* ascending by serial; on the context's heap */
  uint32_t nfrom;
} tn__storage_entry;

struct tn__devices {
  tn__device_slot *slot[TN__MAX_DEVICES];
  int n;
  double since; /* when the search for the next device began, in milliseconds */
  tn__storage_entry *storage;
  int64_t nstorage, cap, free_id;
};

void tn__device_flush(tn__device_slot *s); /* gives every freed block back to the device */
#endif
