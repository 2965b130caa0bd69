// Elements selected by an index, triangles of matrices, and concatenated tensors, compared with plain loops.
#include <cstdint>
#include <span>
#include <vector>

#include "tests/conformance/dense_suite.hpp"

namespace dwell::test {
namespace {

class TensorSelectionsTest : public DenseSuite {};
DWELL_ON_EVERY_DEVICE(TensorSelectionsTest);

// ---- Elements selected by an index -------------------------------------------------------------------------------------------------

TEST_P(TensorSelectionsTest, RowsOfATable) {
  const auto check = [&]<class T, class Index>(T, Index) {
    for (const std::int64_t columns : {1, 3, 8, 64, 100}) {
      for (const Dims& shape : {Dims{7}, Dims{5, 3}, Dims{}, Dims{0}, Dims{300}}) {
        const Placed<T> table = any<T>({50, columns});
        Placed<Index> index(runtime(), shape, lie());
        index.fill([&](At) { return static_cast<double>(random()() % 50); });
        Dims whole = shape;
        whole.push_back(columns);
        Placed<T> to(runtime(), whole, lie());
        batch().embedding(to.view(), table.view(), index.view());
        batch().flush().wait();
        to.expect([&](At at) {
          const std::vector<std::int64_t> where(at.begin(), at.end() - 1);
          return table.at({static_cast<std::int64_t>(index.at(where)), at.back()});
        });
        ASSERT_EQ(to.difference(), "") << to_string(whole) << ", strides " << to_string(to.view().strides()) << ", "
                                       << to_string(table.view().strides());
      }
    }
  };
  check(float(), std::int64_t());
  check(half(), std::int32_t());
  check(double(), std::int32_t());
  check(std::uint8_t(), std::int64_t());
  check(bool(), std::int64_t());
}

TEST_P(TensorSelectionsTest, IndexSelect) {
  const auto check = [&]<class T>(T) {
    const Dims shape{4, 9, 6};
    for (std::size_t dim = 0; dim < 3; ++dim) {
      for (const std::int64_t count : {1, 5, 40}) {
        const Placed<T> from = any<T>(shape);
        Placed<std::int32_t> index(runtime(), {count}, lie());
        index.fill([&](At) { return static_cast<double>(random()() % static_cast<u32>(shape[dim])); });
        Dims whole = shape;
        whole[dim] = count;
        Placed<T> to(runtime(), whole, lie());
        batch().index_select(to.view(), from.view(), dim, index.view());
        batch().flush().wait();
        to.expect([&](At at) {
          std::vector<std::int64_t> where = at;
          where[dim] = static_cast<std::int64_t>(index.at({at[dim]}));
          return from.at(where);
        });
        ASSERT_EQ(to.difference(), "") << "dimension " << dim << ", " << count;
      }
    }
  };
  check(float());
  check(bfloat16());
  check(std::int64_t());
  check(std::int8_t());
}

TEST_P(TensorSelectionsTest, GatherAndScatterAdd) {
  const auto check = [&]<class T, class Index>(T, Index) {
    const Dims of_index{5, 7, 4};
    for (std::size_t dim = 0; dim < 3; ++dim) {
      for (const std::int64_t size : {1, 3, 12}) {
        Dims larger{6, 8, 4};
        larger[dim] = size;
        Placed<Index> index(runtime(), of_index, lie());
        index.fill([&](At) { return static_cast<double>(random()() % static_cast<u32>(size)); });
        const auto chosen = [&](At at) {
          std::vector<std::int64_t> where = at;
          where[dim] = static_cast<std::int64_t>(index.at(at));
          return where;
        };
        Placed<T> there = any<T>(larger);
        Placed<T> to(runtime(), of_index, lie());
        batch().gather(to.view(), there.view(), dim, index.view());
        const Placed<T> from = any<T>({9, 7, 5});
        batch().scatter_add(there.view(), dim, index.view(), from.view());
        batch().flush().wait();
        to.expect([&](At at) { return there.at(chosen(at)); });
        ASSERT_EQ(to.difference(), "") << "dimension " << dim << " of size " << size;
        for_each(of_index, [&](At at) { there.set(chosen(at), there.at(chosen(at)) + from.at(at)); });
        ASSERT_EQ(there.difference(), "") << "dimension " << dim << " of size " << size;
      }
    }
  };
  check(float(), std::int64_t());
  check(double(), std::int32_t());
  check(std::int32_t(), std::int64_t());
  check(std::int64_t(), std::int32_t());
  check(half(), std::int64_t());  // the sums are exact
  check(std::int8_t(), std::int32_t());
  check(bool(), std::int64_t());
}

TEST_P(TensorSelectionsTest, ManyAdditionsToOneElement) {
  // Like the gradient of a table, and like a histogram.
  Placed<float> table(runtime(), {20, 64}, Lie::rows);
  table.fill([](At) { return 0.0; });
  const Placed<float> from = any<float>({2000, 64});
  Placed<std::int64_t> index(runtime(), {2000}, Lie::rows);
  index.fill([&](At) { return static_cast<double>(random()() % 20); });
  batch().scatter_add(table.view(), 0, index.view().expand({64, 2000}).transpose(0, 1), from.view());
  Placed<std::int32_t> counts(runtime(), {20}, Lie::rows);
  counts.fill([](At) { return 0.0; });
  Placed<std::int32_t> one(runtime(), {1}, Lie::rows);
  one.fill([](At) { return 1.0; });
  batch().scatter_add(counts.view(), 0, index.view(), one.view().expand({2000}));
  batch().flush().wait();
  for (std::int64_t i = 0; i < 2000; ++i) {
    const auto row = static_cast<std::int64_t>(index.at({i}));
    for (std::int64_t j = 0; j < 64; ++j) table.set({row, j}, table.at({row, j}) + from.at({i, j}));
    counts.set({row}, counts.at({row}) + 1);
  }
  EXPECT_EQ(table.difference(), "");
  EXPECT_EQ(counts.difference(), "");
}

TEST_P(TensorSelectionsTest, AdditionsOfSixteenBitsAreRoundedInOrder) {
  // A half cannot represent 2048 + 1: with the largest number first, the ones are lost.
  Placed<half> sum(runtime(), {1}, Lie::rows);
  sum.fill([](At) { return 0.0; });
  Placed<half> from(runtime(), {9}, Lie::rows);
  from.fill([](At at) { return at[0] == 0 ? 2048.0 : 1.0; });
  Placed<std::int32_t> index(runtime(), {9}, Lie::rows);
  index.fill([](At) { return 0.0; });
  batch().scatter_add(sum.view(), 0, index.view(), from.view());
  batch().flush().wait();
  sum.expect([](At) { return 2048.0; });
  EXPECT_EQ(sum.difference(), "");
}

TEST_P(TensorSelectionsTest, InvalidIndicesFailTheTask) {
  const auto check = [&]<class Index>(Index) {
    for (const double bad : {-1.0, 6.0, -2147483648.0, sizeof(Index) == 8 ? 4294967296.0 : 2147483647.0}) {
      for (const bool rows : {true, false}) {
        Batch batch(runtime());  // separate, because tasks behind a failure in the same memory are cancelled
        // Adjacent elements moved as one, and single elements.
        const Placed<float> from = any<float>({6, 8});
        Placed<Index> index(runtime(), {10}, Lie::rows);
        index.fill([&](At at) { return at[0] == 4 ? bad : static_cast<double>(random()() % 6); });
        Placed<float> to(runtime(), rows ? Dims{10, 8} : Dims{6, 10}, Lie::gaps);
        if (rows) {
          batch.index_select(to.view(), from.view(), 0, index.view());
        } else {
          batch.index_select(to.view(), from.view().slice(1, 0, 6), 1, index.view());
        }
        const Ticket ticket = batch.flush();
        DWELL_EXPECT_ERROR(ticket.wait(), errc::task_failed, HasSubstr("an index is below 0, or not below the size"));
        EXPECT_EQ(ticket.status(), status::index_out_of_range);
        to.expect([&](At at) {
          const std::int64_t place = at[rows ? 0 : 1];
          if (place == 4) return to.at(at);
          const auto chosen = static_cast<std::int64_t>(index.at({place}));
          return rows ? from.at({chosen, at[1]}) : from.at({at[0], chosen});
        });
        ASSERT_EQ(to.difference(), "") << bad;

        Placed<float> sums = any<float>({6});
        const Placed<float> more = any<float>({10});
        batch.scatter_add(sums.view(), 0, index.view(), more.view());
        EXPECT_EQ(batch.flush().status(), status::index_out_of_range);
        for (std::int64_t i = 0; i < 10; ++i) {
          const auto chosen = static_cast<std::int64_t>(index.at({i}));
          if (i != 4) sums.set({chosen}, sums.at({chosen}) + more.at({i}));
        }
        ASSERT_EQ(sums.difference(), "") << bad;
      }
    }
  };
  check(std::int32_t());
  check(std::int64_t());
}

TEST_P(TensorSelectionsTest, SelectedElementsMayOverlapTheResult) {
  Placed<std::int64_t> table(runtime(), {6, 40}, Lie::rows);
  table.fill([&](At at) { return static_cast<double>(at[1] % 6); });
  const Placed<std::int64_t> before = copy_of(table);
  // The index is a column of the table, which is selected in place.
  batch().index_select(table.view(), table.view(), 0, table.view().select(0, 5).slice(0, 0, 6));
  batch().flush().wait();
  table.expect([&](At at) { return before.at({at[0], at[1]}); });
  EXPECT_EQ(table.difference(), "");
  Placed<std::int64_t> line(runtime(), {8}, Lie::rows);
  line.fill([](At at) { return static_cast<double>(7 - at[0]); });
  batch().gather(line.view(), line.view(), 0, line.view());  // line[line[i]]
  batch().flush().wait();
  line.expect([](At at) { return static_cast<double>(at[0]); });
  EXPECT_EQ(line.difference(), "");
  Placed<std::int32_t> turned(runtime(), {8}, Lie::rows);
  turned.fill([](At at) { return static_cast<double>(7 - at[0]); });
  batch().scatter_add(line.view(), 0, turned.view(), line.view());  // as if the source were a copy
  batch().flush().wait();
  line.expect([](At) { return 7.0; });
  EXPECT_EQ(line.difference(), "");
  Placed<std::int64_t> one(runtime(), {1}, Lie::rows);
  one.fill([](At) { return 1.0; });
  line.fill([](At at) { return static_cast<double>(7 - at[0]); });
  batch().scatter_add(line.view(), 0, line.view(), one.view().expand({8}));  // the index changes too
  batch().flush().wait();
  line.expect([](At at) { return static_cast<double>(8 - at[0]); });
  EXPECT_EQ(line.difference(), "");
}

TEST_P(TensorSelectionsTest, SelectionsThatDoNotFitAreRefused) {
  const Placed<float> table(runtime(), {6, 4}, Lie::rows);
  const Placed<float> to(runtime(), {3, 4}, Lie::rows);
  const Placed<std::int64_t> index(runtime(), {3}, Lie::rows);
  const Placed<std::int64_t> square(runtime(), {7, 4}, Lie::rows);
  DWELL_EXPECT_ERROR(batch().index_select(to.view(), table.view(), 2, index.view()), errc::invalid_argument,
                     HasSubstr("has no dimension 2"));
  DWELL_EXPECT_ERROR(batch().index_select(to.view(), table.view(), 1, index.view()), errc::invalid_argument,
                     HasSubstr("must have the shape (6, 3)"));
  DWELL_EXPECT_ERROR(batch().index_select(to.view(), table.view(), 0, table.view().select(1, 0)), errc::invalid_argument,
                     HasSubstr("argument index, f32 of shape (6,), must hold i32 or i64"));
  DWELL_EXPECT_ERROR(batch().embedding(table.view(), table.view(), index.view()), errc::invalid_argument,
                     HasSubstr("must have the shape (3, 4)"));
  DWELL_EXPECT_ERROR(batch().gather(table.view(), table.view(), 1, square.view()), errc::invalid_argument,
                     HasSubstr("must not be larger than from, of shape (6, 4), in dimension 0"));
  DWELL_EXPECT_ERROR(batch().scatter_add(table.view(), 1, square.view(), to.view()), errc::invalid_argument,
                     HasSubstr("must not be larger than from"));
  DWELL_EXPECT_ERROR(batch().scatter_add(to.view(), 1, square.view().slice(0, 0, 5), table.view()), errc::invalid_argument,
                     HasSubstr("must not be larger than to, of shape (3, 4), in dimension 0"));
  DWELL_EXPECT_ERROR(batch().tril(to.view().select(0, 0), to.view().select(0, 0)), errc::invalid_argument,
                     HasSubstr("must have 2 dimensions or more"));
  EXPECT_TRUE(batch().flush().done());
}

// ---- Triangles and concatenation ---------------------------------------------------------------------------------------------------

TEST_P(TensorSelectionsTest, Triangles) {
  const auto check = [&]<class T>(T) {
    for (const Dims& shape : {Dims{1, 1}, Dims{5, 9}, Dims{9, 5}, Dims{3, 40, 40}, Dims{2, 3, 4, 4}}) {
      for (const std::int64_t diagonal : {0L, 1L, -2L, 100L, -100L, 1L << 40U}) {
        const Placed<T> from = any<T>(shape);
        Placed<T> lower(runtime(), shape, lie());
        Placed<T> upper = copy_of(from);
        batch().tril(lower.view(), from.view(), diagonal);
        batch().triu(upper.view(), upper.view(), diagonal);  // in place
        batch().flush().wait();
        const auto beyond = [&](At at) { return at[at.size() - 1] - at[at.size() - 2] - diagonal; };
        lower.expect([&](At at) { return beyond(at) <= 0 ? from.at(at) : 0.0; });
        ASSERT_EQ(lower.difference(), "") << to_string(shape) << ", " << diagonal;
        upper.expect([&](At at) { return beyond(at) >= 0 ? from.at(at) : 0.0; });
        ASSERT_EQ(upper.difference(), "") << to_string(shape) << ", " << diagonal;
      }
    }
  };
  check(float());
  check(half());
  check(std::int64_t());
  check(bool());
  // The result is the transposed source.
  Placed<float> square = any<float>({30, 30});
  const Placed<float> before = copy_of(square);
  batch().tril(square.view(), square.view().transpose(0, 1));
  batch().flush().wait();
  square.expect([&](At at) { return at[1] <= at[0] ? before.at({at[1], at[0]}) : 0.0; });
  EXPECT_EQ(square.difference(), "");
}

TEST_P(TensorSelectionsTest, CatAndStack) {
  for (std::size_t dim = 0; dim < 3; ++dim) {
    Dims first{3, 4, 5};
    Dims second = first;
    Dims third = first;
    second[dim] = 2;
    third[dim] = 0;
    Dims all = first;
    all[dim] = first[dim] + 2;
    const Placed<float> a = any<float>(first);
    const Placed<float> b = any<float>(third);
    const Placed<std::int32_t> c = any<std::int32_t>(second);  // converted
    Placed<float> to(runtime(), all, lie());
    const TensorView parts[] = {a.view(), b.view(), c.view()};
    batch().cat(to.view(), parts, dim);
    Dims shape = first;
    shape.push_back(0);
    for (std::size_t i = 3; i > dim; --i) shape[i] = shape[i - 1];
    shape[dim] = 2;
    Placed<float> stacked(runtime(), shape, lie());
    const Placed<float> d = any<float>(first);
    const TensorView layers[] = {a.view(), d.view()};
    batch().stack(stacked.view(), layers, dim);
    batch().flush().wait();
    to.expect([&](At at) {
      if (at[dim] < first[dim]) return a.at(at);
      std::vector<std::int64_t> where = at;
      where[dim] -= first[dim];
      return c.at(where);
    });
    ASSERT_EQ(to.difference(), "") << dim;
    stacked.expect([&](At at) {
      std::vector<std::int64_t> where = at;
      where.erase(where.begin() + static_cast<std::ptrdiff_t>(dim));
      return at[dim] == 0 ? a.at(where) : d.at(where);
    });
    ASSERT_EQ(stacked.difference(), "") << dim;
  }
  // Swaps the halves of a vector in place.
  Placed<float> line(runtime(), {10}, Lie::rows);
  line.fill([](At at) { return static_cast<double>(at[0]); });
  const TensorView halves[] = {line.view().slice(0, 5, 5), line.view().slice(0, 0, 5)};
  batch().cat(line.view(), halves, 0);
  batch().flush().wait();
  line.expect([](At at) { return static_cast<double>((at[0] + 5) % 10); });
  EXPECT_EQ(line.difference(), "");
  DWELL_EXPECT_ERROR(batch().cat(line.view(), std::span(halves, 1), 0), errc::invalid_argument,
                     HasSubstr("must have 5 elements in dimension 0"));
  DWELL_EXPECT_ERROR(batch().stack(line.view(), halves, 0), errc::invalid_argument, HasSubstr("must have the shape ()"));
}

}  // namespace
}  // namespace dwell::test
