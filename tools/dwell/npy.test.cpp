#include "npy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>

namespace dwell::tool {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Npy : public testing::Test {
 protected:
  Npy() : file_(fs::path(testing::TempDir()) / ("dwell_npy_" + std::to_string(getpid()) + ".npy")) {}
  ~Npy() override {
    std::error_code error;
    fs::remove(file_, error);
  }

  void put(const std::string& bytes) const { std::ofstream(file_, std::ios::binary) << bytes; }
  // A file of format `major`.0 with this dictionary and as many bytes of data.
  void put(char major, const std::string& dictionary, std::size_t data) const {
    std::string bytes = std::string("\x93NUMPY") + major + '\0';
    const std::size_t length = dictionary.size() + 1;
    for (std::size_t i = 0; i < (major == 1 ? 2U : 4U); ++i) bytes += static_cast<char>(length >> 8 * i & 0xFF);
    put(bytes + dictionary + "\n" + std::string(data, '\x05'));
  }
  std::string error() const {
    try {
      read_npy_header(file_);
    } catch (const std::runtime_error& problem) {
      return problem.what();
    }
    return "none";
  }

  fs::path file_;
};

TEST_F(Npy, WrittenDataIsReadBack) {
  for (const ElementType type : kElementTypes) {
    for (const Shape& shape : {Shape{}, Shape{7}, Shape{3, 4}, Shape{2, 0, 5}, Shape{1, 2, 3, 4}}) {
      std::vector<std::byte> data(element_count(shape, bytes_of(type)) * bytes_of(type));
      for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7);
      {
        std::ofstream to(file_, std::ios::binary);
        write_npy(to, type, shape, data);
        ASSERT_TRUE(to.flush());
      }
      const NpyHeader header = read_npy_header(file_);
      EXPECT_EQ(header.type, type);
      EXPECT_EQ(header.shape, shape);
      EXPECT_EQ(header.data_offset % 64, 0U);
      std::vector<std::byte> back(header.data_bytes());
      NpyData(file_, header).read(0, back);
      EXPECT_EQ(back, data);
    }
  }
}

TEST_F(Npy, ReadsAllVersionsAndAnyLayoutOfTheHeader) {
  put(1, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }", 24);
  EXPECT_EQ(read_npy_header(file_).shape, (Shape{2, 3}));
  put(2, "{'shape':(5L,),'descr':\"|u1\",'fortran_order':True}", 5);
  EXPECT_EQ(read_npy_header(file_).shape, (Shape{5}));
  EXPECT_EQ(read_npy_header(file_).type, ElementType::u8);
  put(3, "{ 'descr' : '<f2' , 'fortran_order' : False , 'shape' : ( ) }     ", 2);
  EXPECT_EQ(read_npy_header(file_).shape, Shape{});
}

TEST_F(Npy, ErrorsNameTheFault) {
  fs::remove(file_);
  EXPECT_THAT(error(), HasSubstr("cannot be read: No such file"));
  put("");
  EXPECT_THAT(error(), HasSubstr("ends within its first eight bytes"));
  put("PK\x03\x04 this is a zip");
  EXPECT_THAT(error(), HasSubstr("does not begin with"));
  put(std::string("\x93NUMPY\x09\x00\x00\x00", 10));
  EXPECT_THAT(error(), HasSubstr("format version 9.0"));
  put(std::string("\x93NUMPY\x01\x00\xff\x00{'descr'", 18));
  EXPECT_THAT(error(), HasSubstr("ends within its header"));
  put(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12));
  EXPECT_THAT(error(), HasSubstr("claims 4294967295 bytes"));
  put(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 11);
  EXPECT_THAT(error(), HasSubstr("takes 12 bytes, and 11 follow"));
  put(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 13);
  EXPECT_THAT(error(), HasSubstr("takes 12 bytes, and 13 follow"));
  put(1, "{'descr': '>f4', 'fortran_order': False, 'shape': (3,), }", 12);
  EXPECT_THAT(error(), HasSubstr("x.astype('<f4')"));
  put(1, "{'descr': '<m8', 'fortran_order': False, 'shape': (3,), }", 24);
  EXPECT_THAT(error(), HasSubstr("elements of type '<m8'"));
  put(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }", 12);
  EXPECT_THAT(error(), HasSubstr("holds records"));
  put(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 1), }", 12);
  EXPECT_THAT(error(), HasSubstr("numpy.ascontiguousarray"));
  put(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4), }", 0);
  EXPECT_THAT(error(), HasSubstr("too large"));
  put(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 0);
  EXPECT_THAT(error(), HasSubstr("too large"));
  put(1, "{'descr': '<f4', 'shape': (3,), }", 12);
  EXPECT_THAT(error(), HasSubstr("no fortran_order"));
  for (const char* const dictionary : {"", "{", "{'descr'", "{'descr':", "{'descr': '", "{'descr': ''", "{'shape': (3", "{'shape': (-3,)",
                                       "{'shape': 3}", "{'fortran_order': Maybe}", "{'x': 1}", "{'descr': '<f4' 'shape': (3,)}"}) {
    put(1, dictionary, 12);
    EXPECT_THAT(error(), HasSubstr("is not a valid .npy file")) << dictionary;
  }
}

TEST(NpyShape, CountsElements) {
  EXPECT_EQ(element_count({}, 4), 1U);
  EXPECT_EQ(element_count({3, 4}, 4), 12U);
  EXPECT_EQ(element_count({3, 0, std::uint64_t{1} << 62U}, 8), 0U);
  EXPECT_THROW(element_count({std::uint64_t{1} << 62U}, 8), std::invalid_argument);
  EXPECT_EQ(text_of(Shape{5}), "(5,)");
  EXPECT_EQ(text_of(Shape{5, 6}), "(5, 6)");
}

TEST_F(Npy, OnlyRegularFilesAreRead) {
  for (const char* const path : {"/dev/zero", "/"}) EXPECT_THROW(read_npy_header(path), std::runtime_error);
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  EXPECT_EQ(error(), "cannot be read: it is not a regular file");
}

}  // namespace
}  // namespace dwell::tool
