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

// TRY(expr): the value of a Result, or return its error from the enclosing function.
#define TRY(...)                                                               \
  __extension__({                                                              \
    auto try_result_ = (__VA_ARGS__);                                          \
    if (!try_result_) return ::tokamak::Error(std::move(try_result_.error())); \
    ::tokamak::detail::take(std::move(try_result_));                           \
  })

namespace detail {
template <class T>
T take(Result<T>&& result) {
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}
}  // namespace detail

}  // namespace tokamak
