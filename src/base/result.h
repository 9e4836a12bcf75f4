// Result<T>: a value or an Error. Everything that depends on the world (files, flags, requests, memory) returns one.
#pragma once

#include <tl/expected.hpp>
#include <utility>

#include "base/error.h"

namespace tokamak {

template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
  using Base = tl::expected<T, Error>;

 public:
  using Base::Base;
  Result(Error error) : Base(tl::unexpect, std::move(error)) {}  // so that `return Error{...};` works
};

// TRY(expr): the value of a Result, or return its error from the enclosing function. TRYs may nest: each has a variable
// of its own.
#define TRY(...) TOKAMAK_TRY_(TOKAMAK_JOIN_(try_result_, __COUNTER__), __VA_ARGS__)
#define TOKAMAK_TRY_(result, ...)                                    \
  __extension__({                                                    \
    auto result = (__VA_ARGS__);                                     \
    if (!result) return ::tokamak::Error(std::move(result.error())); \
    ::tokamak::detail::take(std::move(result));                      \
  })
#define TOKAMAK_JOIN_(a, b) TOKAMAK_JOIN_EXPANDED_(a, b)
#define TOKAMAK_JOIN_EXPANDED_(a, b) a##b

namespace detail {
template <class T>
T take(Result<T>&& result) {
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}
}  // namespace detail

}  // namespace tokamak
