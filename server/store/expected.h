// What a call of the store gives: its value, or the status that says why there is none.
#ifndef GRADSTREAM_SERVER_STORE_EXPECTED_H_
#define GRADSTREAM_SERVER_STORE_EXPECTED_H_

#include <concepts>
#include <type_traits>
#include <utility>
#include <variant>

#include "runtime/base/status.h"
#include "server/journal/store.h"

namespace gradstream {

// Nobody may drop one unread, or read a value that is not there. It does not convert to bool: of an Expected<bool> that
// would look like its value.
template <typename T>
class [[nodiscard]] Expected {
 public:
  // A value, or what converts to one.
  template <typename U>
  requires(std::convertible_to<U, T> && !std::same_as<U, Expected>) Expected(U value)
      : state_(std::in_place_index<0>, std::move(value)) {}
  // Never kOk, which names no value.
  Expected(StoreStatus status) : state_(std::in_place_index<1>, status) { GS_ASSERT(status != StoreStatus::kOk); }

  bool is_ok() const { return state_.index() == 0; }
  // kOk where there is a value.
  StoreStatus status() const { return is_ok() ? StoreStatus::kOk : *std::get_if<1>(&state_); }

  // The value; a program that asks for one that is not there ends.
  const T& operator*() const& { return value_of(state_); }
  T& operator*() & { return value_of(state_); }
  T&& operator*() && { return std::move(value_of(state_)); }
  const T* operator->() const { return &value_of(state_); }
  T* operator->() { return &value_of(state_); }

 private:
  template <typename State>
  static auto& value_of(State& state) {
    auto* const value = std::get_if<0>(&state);
    GS_ASSERT(value != nullptr);
    return *value;
  }

  std::variant<T, StoreStatus> state_;
};

// The status of what a body returns, whichever of the two it is.
inline StoreStatus store_status(StoreStatus status) { return status; }
template <typename T>
StoreStatus store_status(const Expected<T>& expected) {
  return expected.status();
}

}  // namespace gradstream

// Returns from the enclosing function with the status of the expression unless it is kOk: GS_TRY() for a store.
#define GS_TRY_STORE(expression)                                                             \
  do {                                                                                       \
    const ::gradstream::StoreStatus gs_try_status_ = ::gradstream::store_status(expression); \
    if (gs_try_status_ != ::gradstream::StoreStatus::kOk) {                                  \
      return gs_try_status_;                                                                 \
    }                                                                                        \
  } while (false)

#endif  // GRADSTREAM_SERVER_STORE_EXPECTED_H_
