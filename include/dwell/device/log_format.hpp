// Formats of the log, checked when the operator is compiled.
//
// The grammar is a subset of std::format's: a placeholder is {} or {:[[fill]align][sign][#][0][width][.precision] [type]}, in the order of
// the arguments; {{ and }} are braces. Needs C++20.
#pragma once

#include <dwell/device/log_line.hpp>
#include <dwell/device/signature.hpp>

#if __cplusplus >= 202002L

namespace dwell {
namespace device {

// What may be wrong with a format.
#define DWELL_LOG_MISTAKES(mistake)                                                                                                   \
  mistake(more_placeholders_than_arguments) mistake(more_arguments_than_placeholders) mistake(a_closing_brace_stands_alone_write_two) \
      mistake(a_placeholder_neither_ends_nor_begins_with_a_colon) mistake(a_placeholder_has_an_unknown_type_or_no_end)                \
          mistake(a_brace_cannot_fill) mistake(a_precision_has_no_digits) mistake(a_width_or_precision_has_more_than_four_digits)     \
              mistake(this_type_does_not_fit_the_argument) mistake(a_sign_or_number_sign_or_zero_needs_a_number)                      \
                  mistake(a_precision_needs_a_float) mistake(the_text_has_more_than_4095_characters)

enum class LogMistake : u32 {
  none,
#define DWELL_LOG_MISTAKE(name) name,
  DWELL_LOG_MISTAKES(DWELL_LOG_MISTAKE)
#undef DWELL_LOG_MISTAKE
};

#if DWELL_NAMES_MISTAKES
// Not constexpr: the compiler names the one that is called.
namespace log_format_error {
#define DWELL_LOG_MISTAKE(name) void name();
DWELL_LOG_MISTAKES(DWELL_LOG_MISTAKE)
#undef DWELL_LOG_MISTAKE
}  // namespace log_format_error
#endif

template <class T>
struct LogTypeOf {
  static DWELL_HOST_DEVICE LogType of() {
    constexpr bool wide = sizeof(T) == 8;
    if (kSame<T, bool>) return LogType::boolean;
    if (kSame<T, char>) return LogType::character;
    switch (kind_of<T>()) {
      case Kind::signed_integer: return wide ? LogType::int64 : LogType::int32;
      case Kind::unsigned_integer: return wide ? LogType::uint64 : LogType::uint32;
      case Kind::floating: return wide ? LogType::float64 : LogType::float32;
      case Kind::bfloat: return LogType::float32;
      default: return LogType::none;
    }
  }
  static constexpr LogType value = of();
  static_assert(value != LogType::none, "dwell::log takes integers, bool, char, floats and pointers");
};
template <class T>
struct LogTypeOf<T*> {
  static constexpr LogType value = LogType::pointer;
};

// Reads a format whose text ends with a null character.
class LogFormatCheck {
 public:
  DWELL_CONSTEVAL LogFormatCheck(const char* text, u64 length) : text_(text), length_(length) {}

  DWELL_CONSTEVAL LogMistake mistake(const LogType* types, u32 count) {
    if (length_ > kLogFormat) return LogMistake::the_text_has_more_than_4095_characters;
    u32 used = 0;
    while (at_ < length_) {
      const char c = text_[at_++];
      if ((c != '{' && c != '}') || take(c)) continue;
      if (c == '}') return LogMistake::a_closing_brace_stands_alone_write_two;
      if (used == count) return LogMistake::more_placeholders_than_arguments;
      const LogMistake its = placeholder(types[used++]);
      if (its != LogMistake::none) return its;
    }
    return used == count ? LogMistake::none : LogMistake::more_arguments_than_placeholders;
  }

 private:
  DWELL_CONSTEVAL bool next_is(const char* any, u64 ahead = 0) const {
    for (; *any != 0; ++any)
      if (text_[at_ + ahead] == *any) return true;
    return false;
  }
  DWELL_CONSTEVAL bool take(char c) {
    if (text_[at_] != c) return false;
    ++at_;
    return true;
  }
  DWELL_CONSTEVAL u32 take_digits() {
    u32 digits = 0;
    for (; text_[at_] >= '0' && text_[at_] <= '9'; ++at_) ++digits;
    return digits;
  }

  // What is wrong with the placeholder that begins behind its opening brace.
  DWELL_CONSTEVAL LogMistake placeholder(LogType type) {
    if (take('}')) return LogMistake::none;
    if (!take(':')) return LogMistake::a_placeholder_neither_ends_nor_begins_with_a_colon;
    if (at_ < length_ && next_is("<>^", 1)) {
      if (next_is("{}")) return LogMistake::a_brace_cannot_fill;
      at_ += 2;
    } else if (next_is("<>^")) {
      ++at_;
    }
    bool for_numbers = take('+') || take('-') || take(' ');
    if (take('#')) for_numbers = true;
    if (take('0')) for_numbers = true;
    if (take_digits() > 4) return LogMistake::a_width_or_precision_has_more_than_four_digits;
    const bool precise = take('.');
    if (precise) {
      const u32 digits = take_digits();
      if (digits == 0) return LogMistake::a_precision_has_no_digits;
      if (digits > 4) return LogMistake::a_width_or_precision_has_more_than_four_digits;
    }
    const bool is_float = type == LogType::float32 || type == LogType::float64;
    bool is_number = is_float || (type >= LogType::int32 && type <= LogType::uint64);
    if (!next_is("}")) {
      if (!next_is("aAbBcdeEfFgGopsxX")) return LogMistake::a_placeholder_has_an_unknown_type_or_no_end;
      const bool as_integer = next_is("bBdoxX") && !is_float && type != LogType::pointer;
      const bool fits = as_integer || (is_float && next_is("aAeEfFgG")) || (type == LogType::boolean && next_is("s")) ||
                        (type == LogType::character && next_is("c")) || (type == LogType::pointer && next_is("p"));
      if (!fits) return LogMistake::this_type_does_not_fit_the_argument;
      is_number = is_number || as_integer;
      ++at_;
    }
    if (!take('}')) return LogMistake::a_placeholder_has_an_unknown_type_or_no_end;
    if (for_numbers && !is_number) return LogMistake::a_sign_or_number_sign_or_zero_needs_a_number;
    return precise && !is_float ? LogMistake::a_precision_needs_a_float : LogMistake::none;
  }

  const char* text_;
  u64 length_;
  u64 at_ = 0;
};

// What is wrong with a format for arguments of these types.
template <class... A, u64 size>
DWELL_CONSTEVAL LogMistake log_mistake(const char (&text)[size]) {
  const LogType types[sizeof...(A) + 1] = {LogTypeOf<A>::value..., LogType::none};
  return LogFormatCheck(text, size - 1).mistake(types, sizeof...(A));
}

// A format for arguments of these types, made of a string literal. A wrong one does not compile.
template <class... A>
class LogFormat {
 public:
  template <u64 size>
  DWELL_CONSTEVAL LogFormat(const char (&text)[size])  // NOLINT(google-explicit-constructor)
      : text_(text), length_(size - 1), mistake_(log_mistake<A...>(text)) {
#if DWELL_NAMES_MISTAKES
#define DWELL_LOG_MISTAKE(name) \
  if (mistake_ == LogMistake::name) log_format_error::name();
    DWELL_LOG_MISTAKES(DWELL_LOG_MISTAKE)
#undef DWELL_LOG_MISTAKE
#endif
  }

  DWELL_DEVICE const char* text() const { return text_; }
  DWELL_DEVICE u32 length() const { return length_; }

  // NVRTC 13.0 reports no message for a call that is not constant. So this emits an invalid instruction, which the assembler refuses unless
  // it is unreachable.
  DWELL_DEVICE void refuse_mistake() const {
#if DWELL_REFUSES_MISTAKES
#define DWELL_LOG_MISTAKE(name) \
  if (mistake_ == LogMistake::name) asm volatile("format_of_dwell_log__" #name ";");
    DWELL_LOG_MISTAKES(DWELL_LOG_MISTAKE)
#undef DWELL_LOG_MISTAKE
#endif
  }

 private:
  const char* text_;
  u32 length_;
  LogMistake mistake_;
};

}  // namespace device
}  // namespace dwell

#endif
