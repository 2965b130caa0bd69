// Objects of the heap that the collector frees: their types, and the references in them.
#pragma once

#include <dwell/device/atomic.hpp>
#include <dwell/device/group.hpp>
#include <dwell/device/ref.hpp>

namespace dwell {

template <class T>
class Field;

namespace device {

DWELL_CONSTANT u32 kMostReferences = 24;  // in an object, or in an element of an array
DWELL_CONSTANT u32 kTypeName = 56;        // bytes of a type's name, with a 0 at its end

// A type of objects, as the collector reads it.
struct TypeRecord {
  u64 key;                  // a hash of the rest; 0: no type
  u32 bytes;                // of an object, its header included; of an array, what comes before its elements
  u16 count;                // references in the object, or in each element
  u16 stride;               // bytes of an element; 0: the type is no array
  u16 at[kMostReferences];  // where they are, in bytes from the object's begin; of an array, in its first element
  char name[kTypeName];
  u32 moves;  // 1: Heap::compact may move its objects
  u32 reserved;
};
static_assert(sizeof(TypeRecord) == 128, "host and device agree on the layout");

// An object's first bytes.
struct ObjectHeader {
  u32 type;  // number of its type
  u32 link;  // of an object that the collector has yet to visit: the next one. Of one that may move: see src/device/heap_move.hpp
};
static_assert(sizeof(ObjectHeader) == 8, "host and device agree on the layout");

// Bytes before the members of a T.
template <class T>
DWELL_CONSTANT u32 kBeforeMembers = alignof(T) > sizeof(ObjectHeader) ? alignof(T) : sizeof(ObjectHeader);

template <class T>
struct IsField {
  static constexpr bool value = false;
};
template <class T>
struct IsField<Field<T>> {
  static constexpr bool value = true;
};

// Returns where a member is, which must be a field.
template <class Member>
DWELL_HOST_DEVICE u16 place_of_field(u64 offset) {
  static_assert(IsField<Member>::value, "DWELL_OBJECT names members of the type dwell::Field<T>");
  return static_cast<u16>(offset);
}

template <u32 count>
struct Places {
  u16 at[count];
};

// The record of a type with these places, counted from its first member; `element`: bytes of an element, of an array.
template <class T, u32 count>
DWELL_HOST_DEVICE TypeRecord type_record(const char* name, const Places<count>& places, u32 used, bool moves, u32 element = 0) {
  static_assert(count <= kMostReferences + 1, "a type of the heap has 24 references at most");
  TypeRecord record{};
  record.bytes = static_cast<u32>(kBeforeMembers<T> + sizeof(T));
  record.count = static_cast<u16>(used);
  record.stride = static_cast<u16>(element);
  record.moves = moves ? 1 : 0;
  for (u32 i = 0; i < used; ++i) record.at[i] = static_cast<u16>(kBeforeMembers<T> + places.at[i]);
  for (u32 i = 0; i + 1 < kTypeName && name[i] != 0; ++i) record.name[i] = name[i];
  // FNV-1a (Fowler, Noll, Vo), by words of what tells types apart.
  u64 key = 0xCBF29CE484222325ULL;
  for (u32 i = 0; i < kTypeName; ++i) key = (key ^ static_cast<u8>(record.name[i])) * 0x100000001B3ULL;
  for (u32 i = 0; i < used; ++i) key = (key ^ record.at[i]) * 0x100000001B3ULL;
  key = ((key ^ record.bytes) * 0x100000001B3ULL ^ (record.stride | record.moves << 16U)) * 0x100000001B3ULL;
  record.key = key == 0 ? 1 : key;
  return record;
}

// ObjectOf<T>::is: T was declared by DWELL_OBJECT; record() returns its record. DWELL_OBJECT declares dwell_object_record in the type's
// namespace, where argument-dependent lookup finds it.
template <class T>
DWELL_HOST_DEVICE auto is_object(int) -> decltype(dwell_object_record(static_cast<T*>(nullptr)).key != 0) {
  return true;
}
template <class T>
DWELL_HOST_DEVICE bool is_object(...) {
  return false;
}
template <class T>
struct ObjectOf {
  static constexpr bool is = is_object<T>(0);
  static DWELL_HOST_DEVICE TypeRecord record() { return dwell_object_record(static_cast<T*>(nullptr)); }
};

// T was declared by DWELL_MOVABLE.
template <class T, bool is_object = ObjectOf<T>::is>
struct MovesOf {
  static constexpr bool value = false;
};
template <class T>
struct MovesOf<T, true> {
  static constexpr bool value = ObjectOf<T>::record().moves != 0;
};

// Bytes between a reference to a T and the T.
template <class T, bool is_object = ObjectOf<T>::is>
struct Before {
  static constexpr u32 bytes = 0;
};
template <class T>
struct Before<T, true> {
  static constexpr u32 bytes = kBeforeMembers<T>;
};

// Context::heap_state: of the phases of a collection (heap_layout.hpp) the worker's, plus 1.
DWELL_CONSTANT u32 kHeapAtRest = 1;
DWELL_CONSTANT u32 kHeapMoves = 6;

}  // namespace device

// A reference in an object, to an object that the collector keeps as long as it is reachable. A T may be any type of objects, the same one
// too. Aggregate initialisation takes a Ref<T>: g.make<Node>(left, right). Objects are never assigned as a whole, since the collector must
// see each reference that is overwritten.
template <class T>
class Field {
 public:
  Field() = default;
  Field(const Field&) = default;
  Field& operator=(const Field&) = delete;
  ~Field() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): members are initialised from references
  DWELL_HOST_DEVICE Field(Ref<T> ref) : unit_(ref.unit()) {}

  // Returns the reference. By any thread of an operator.
  DWELL_DEVICE Ref<T> get(Group g) const;
  // The same of a type whose objects do not move. By any thread, also of the host in a copy of the object.
  DWELL_DEVICE Ref<T> get() const {
    static_assert(!device::MovesOf<T>::value, "objects of this type move: field.get(g) in operators, field.stored() in a copy on the host");
    return stored();
  }
  // Returns the reference as it is stored, in a copy of an object that the host has read. The object that it names may have moved.
  DWELL_DEVICE Ref<T> stored() const { return Ref<T>::at(device::load<device::Order::relaxed, device::Scope::device>(&unit_)); }
  // Overwrites the reference. By any thread of an operator; of threads that may do so at the same time, one wins.
  DWELL_DEVICE void set(Group g, Ref<T> ref);
  // The same among tasks that run at the same time: whoever gets the reference by acquire sees what was stored before publish. On a GPU
  // they cost more.
  DWELL_DEVICE Ref<T> acquire(Group g) const;
  DWELL_DEVICE Ref<T> acquire() const {
    static_assert(!device::MovesOf<T>::value, "objects of this type move: field.acquire(g)");
    return Ref<T>::at(device::load<device::Order::acquire, device::Scope::device>(&unit_));
  }
  DWELL_DEVICE void publish(Group g, Ref<T> ref);
  // Stores `desired` if `expected` is there. Returns what was there. Acquires and releases.
  DWELL_DEVICE Ref<T> compare_exchange(Group g, Ref<T> expected, Ref<T> desired);

 private:
  u32 unit_;
};

// References in a row, whose number is known when they are made: Group::make_array.
template <class T>
class Array {
 public:
  Array() = default;
  Array& operator=(const Array&) = delete;
  DWELL_HOST_DEVICE u32 size() const { return size_; }
  // `i` < size(), which is not checked.
  DWELL_DEVICE Field<T>& operator[](u32 i) { return reinterpret_cast<Field<T>*>(this + 1)[i]; }
  DWELL_DEVICE const Field<T>& operator[](u32 i) const { return reinterpret_cast<const Field<T>*>(this + 1)[i]; }

 private:
  friend class Group;
  u32 size_;
  u32 reserved_;
};

// One reference. Root<T> names such an object that the host's heap holds by a name: g.at(root)->ref.get().
template <class T>
struct Cell {
  Field<T> ref;
};
template <class T>
using Root = Ref<Cell<T>>;

template <class T>
DWELL_HOST_DEVICE device::TypeRecord dwell_object_record(Cell<T>*) {
  return device::type_record<Cell<T>>("cell", device::Places<1>{{0}}, 1, false);
}
template <class T>
DWELL_HOST_DEVICE device::TypeRecord dwell_object_record(Array<T>*) {
  return device::type_record<Array<T>>("array", device::Places<1>{{sizeof(Array<T>)}}, 1, device::MovesOf<T>::value, sizeof(Field<T>));
}

}  // namespace dwell

// Declares a type whose objects the collector frees, and its references: DWELL_OBJECT(Node, left, right). Stands behind the type, in its
// namespace, before its first use; the same in each operator that uses it, and in the host's program. All references of the type to objects
// are of the type dwell::Field<T>, and all are named; none: DWELL_OBJECT(Leaf).
#define DWELL_OBJECT(...) DWELL_OBJECT_PICK(false, __VA_ARGS__, )
// The same for a type whose objects Heap::compact may move, so that memory of which little is used can be given back. In operators, fields
// that refer to it are loaded by get(g) and acquire(g). A reference to such an object stands in objects, handles and arguments of tasks
// alone: in a buffer, a structure or a variable of the host it may be out of date.
#define DWELL_MOVABLE(...) DWELL_OBJECT_PICK(true, __VA_ARGS__, )
#define DWELL_OBJECT_PICK(moves, Type, ...)                                                                                 \
  __attribute__((unused)) DWELL_HOST_DEVICE dwell::device::TypeRecord dwell_object_record(Type*) {                          \
    static_assert(__is_trivially_copyable(Type), "objects of the heap are moved as bytes: the type is trivially copyable"); \
    static_assert(alignof(Type) <= 16, "the heap aligns objects to 16 bytes at most");                                      \
    return dwell::device::type_record<Type>(                                                                                \
        #Type, dwell::device::Places<DWELL_OBJECT_COUNT(__VA_ARGS__) + 1>{{DWELL_OBJECT_PLACES(Type, __VA_ARGS__) 0}},      \
        DWELL_OBJECT_COUNT(__VA_ARGS__), moves);                                                                            \
  }                                                                                                                         \
  static_assert(dwell::device::ObjectOf<Type>::is, "DWELL_OBJECT stands before the first use of the type")
// Each list of members ends with an empty one.
#define DWELL_OBJECT_COUNT(...) \
  DWELL_OBJECT_LAST(__VA_ARGS__, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, )
#define DWELL_OBJECT_LAST(_0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17, _18, _19, _20, _21, _22, _23, \
                          _24, count, ...)                                                                                              \
  count
#define DWELL_OBJECT_PLACE(T, member) dwell::device::place_of_field<decltype(T::member)>(DWELL_OFFSET_OF(T, member)),
#define DWELL_OBJECT_JOIN(a, b) DWELL_OBJECT_JOINED(a, b)
#define DWELL_OBJECT_JOINED(a, b) a##b
#define DWELL_OBJECT_PLACES(T, ...) DWELL_OBJECT_JOIN(DWELL_OBJECT_PLACES_, DWELL_OBJECT_COUNT(__VA_ARGS__))(T, __VA_ARGS__)
#define DWELL_OBJECT_PLACES_0(T, ...)
#define DWELL_OBJECT_PLACES_1(T, a, ...) DWELL_OBJECT_PLACE(T, a) DWELL_OBJECT_PLACES_0(T, __VA_ARGS__)
#define DWELL_OBJECT_PLACES_2(T, a, ...) DWELL_OBJECT_PLACE(T, a) DWELL_OBJECT_PLACES_1(T, __VA_ARGS__)
#define DWELL_OBJECT_PLACES_3(T, a, ...) DWELL_OBJECT_PLACE(T, a) DWELL_OBJECT_PLACES_2(T, __VA_ARGS__)
#define DWELL_OBJECT_PLACES_4(T, a, ...) DWELL_OBJECT_PLACE(T, a) DWELL_OBJECT_PLACES_3(T, __VA_ARGS__)
#define DWELL_OBJECT_PLACES_5(T, a, ...) DWELL_OBJECT_PLACE(T, a) DWELL_OBJECT_PLACES_4(T, __VA_ARGS__)
#define DWELL_OBJECT_PLACES_6(T, a, ...) DWELL_OBJECT_PLACE(T, a) DWELL_OBJECT_PLACES_5(T, __VA_ARGS__)
#define DWELL_OBJECT_PLACES_7(T, a, ...) DWELL_OBJECT_PLACE(T, a) DWELL_OBJECT_PLACES_6(T, __VA_ARGS__)
#define DWELL_OBJECT_PLACES_8(T, a, ...) DWELL_OBJECT_PLACE(T, a) DWELL_OBJECT_PLACES_7(T, __VA_ARGS__)
#define DWELL_OBJECT_PLACES_9(T, a, ...) DWELL_OBJECT_PLACE(T, a) DWELL_OBJECT_PLACES_8(T, __VA_ARGS__)
#define DWELL_OBJECT_PLACES_10(T, a, ...) DWELL_OBJECT_PLACE(T, a) DWELL_OBJECT_PLACES_9(T, __VA_ARGS__)
#define DWELL_OBJECT_PLACES_11(T, a, ...) DWELL_OBJECT_PLACE(T, a) DWELL_OBJECT_PLACES_10(T, __VA_ARGS__)
#define DWELL_OBJECT_PLACES_12(T, a, ...) DWELL_OBJECT_PLACE(T, a) DWELL_OBJECT_PLACES_11(T, __VA_ARGS__)
#define DWELL_OBJECT_PLACES_13(T, a, ...) DWELL_OBJECT_PLACE(T, a) DWELL_OBJECT_PLACES_12(T, __VA_ARGS__)
#define DWELL_OBJECT_PLACES_14(T, a, ...) DWELL_OBJECT_PLACE(T, a) DWELL_OBJECT_PLACES_13(T, __VA_ARGS__)
#define DWELL_OBJECT_PLACES_15(T, a, ...) DWELL_OBJECT_PLACE(T, a) DWELL_OBJECT_PLACES_14(T, __VA_ARGS__)
#define DWELL_OBJECT_PLACES_16(T, a, ...) DWELL_OBJECT_PLACE(T, a) DWELL_OBJECT_PLACES_15(T, __VA_ARGS__)
#define DWELL_OBJECT_PLACES_17(T, a, ...) DWELL_OBJECT_PLACE(T, a) DWELL_OBJECT_PLACES_16(T, __VA_ARGS__)
#define DWELL_OBJECT_PLACES_18(T, a, ...) DWELL_OBJECT_PLACE(T, a) DWELL_OBJECT_PLACES_17(T, __VA_ARGS__)
#define DWELL_OBJECT_PLACES_19(T, a, ...) DWELL_OBJECT_PLACE(T, a) DWELL_OBJECT_PLACES_18(T, __VA_ARGS__)
#define DWELL_OBJECT_PLACES_20(T, a, ...) DWELL_OBJECT_PLACE(T, a) DWELL_OBJECT_PLACES_19(T, __VA_ARGS__)
#define DWELL_OBJECT_PLACES_21(T, a, ...) DWELL_OBJECT_PLACE(T, a) DWELL_OBJECT_PLACES_20(T, __VA_ARGS__)
#define DWELL_OBJECT_PLACES_22(T, a, ...) DWELL_OBJECT_PLACE(T, a) DWELL_OBJECT_PLACES_21(T, __VA_ARGS__)
#define DWELL_OBJECT_PLACES_23(T, a, ...) DWELL_OBJECT_PLACE(T, a) DWELL_OBJECT_PLACES_22(T, __VA_ARGS__)
#define DWELL_OBJECT_PLACES_24(T, a, ...) DWELL_OBJECT_PLACE(T, a) DWELL_OBJECT_PLACES_23(T, __VA_ARGS__)
