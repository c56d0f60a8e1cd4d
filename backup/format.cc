#include "backup/format.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "common/crc32c.h"
#include "dirserver/cells/cells.h"
#include "rpc/xdr.h"

namespace slice::backup {
namespace {

using rpc::XdrReader;
using rpc::XdrWriter;

constexpr std::uint32_t kMagic = 0x534c424b;  // "SLBK"
constexpr std::uint32_t kFormatVersion = 1;
constexpr std::size_t kFrame = 8;  // length and checksum
constexpr std::size_t kMaxPayload = 16 << 20;
constexpr std::size_t kMaxText = 4096;
constexpr std::uint32_t kMaxSites = 65536, kMaxRuns = 65536;
constexpr const char* kPart = ".part";

enum class Kind : std::uint32_t { kHeader = 1, kCell = 2, kImage = 3, kStateFile = 4, kEnd = 5 };

tl::unexpected<Error> system_error(const std::string& path) {
  return fail(errno == ENOSPC ? Errc::kNoSpace : Errc::kIo, "{}: {}", path, std::strerror(errno));
}

void encode(XdrWriter& out, const Header& header) {
  out.u32(kMagic);
  out.u32(kFormatVersion);
  out.u32(header.volume.value);
  out.u32(static_cast<std::uint32_t>(header.role));
  out.text(header.server);
  out.text(header.made_for);
  out.u64(static_cast<std::uint64_t>(header.taken.ns));
  out.u32(static_cast<std::uint32_t>(header.sites.size()));
  for (std::uint32_t site : header.sites) out.u32(site);
}

// kInvalid: of another version; kCorrupt.
Status decode(ByteView bytes, Header& header) {
  XdrReader in(bytes);
  if (static_cast<Kind>(in.u32()) != Kind::kHeader || in.u32() != kMagic)
    return fail(Errc::kCorrupt, "it is no file of a backup");
  if (const std::uint32_t version = in.u32(); version != kFormatVersion)
    return fail(Errc::kInvalid, "it is of version {}, this program reads {}", version, kFormatVersion);
  header.volume = VolumeId{in.u32()};
  header.role = static_cast<wire::Role>(in.u32());
  header.server = std::string(in.text(kMaxText));
  header.made_for = std::string(in.text(kMaxText));
  header.taken.ns = static_cast<std::int64_t>(in.u64());
  const std::uint32_t count = in.u32();
  if (count > kMaxSites) in.fail();
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) header.sites.push_back(in.u32());
  if (!in.complete()) return fail(Errc::kCorrupt, "its header does not decode");
  return {};
}

struct Encoder {
  XdrWriter& out;
  void operator()(const Cell& cell) const {
    out.u32(static_cast<std::uint32_t>(Kind::kCell));
    out.text(cell.key);
    out.text(cell.value);
  }
  void operator()(const Image& image) const {
    out.u32(static_cast<std::uint32_t>(Kind::kImage));
    out.u64(image.file.value);
    out.u64(image.end);
    out.u32(image.epoch.value);
    nfs3::encode(out, image.mtime);
    out.u32(static_cast<std::uint32_t>(image.runs.size()));
    for (const wire::ObjectRun& run : image.runs) {
      out.u64(run.offset);
      out.text(run.data);
    }
  }
  void operator()(const StateFile& file) const {
    out.u32(static_cast<std::uint32_t>(Kind::kStateFile));
    out.text(file.name);
    out.text(file.contents);
  }
};

Cell decode_cell(XdrReader& in) {
  Cell cell{.key = std::string(in.text(wire::kMaxScanKey)), .value = {}};
  cell.value = std::string(in.text(wire::kMaxScanValue));
  return cell;
}

Image decode_image(XdrReader& in) {
  Image image{.file = FileId{in.u64()}, .end = in.u64(), .epoch = {}, .mtime = {}, .runs = {}};
  image.epoch = Epoch{in.u32()};
  nfs3::decode(in, image.mtime);
  const std::uint32_t count = in.u32();
  if (count > kMaxRuns) in.fail();
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
    const std::uint64_t offset = in.u64();
    image.runs.push_back({offset, std::string(in.text(kMaxPayload))});
  }
  return image;
}

StateFile decode_state_file(XdrReader& in) {
  StateFile file{.name = std::string(in.text(kMaxText)), .contents = {}};
  file.contents = std::string(in.text(wire::kMaxStateBytes));
  return file;
}

}  // namespace

// ---- writing ----

Result<std::unique_ptr<Writer>> Writer::make(std::string path, const Header& header) {
  const std::string part = path + kPart;
  const int fd = ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0 && errno == EEXIST) return fail(Errc::kExists, "{} is there already", part);
  if (fd < 0) return system_error(part);
  std::unique_ptr<Writer> writer(new Writer(std::move(path), ::fdopen(fd, "wb")));
  XdrWriter out;
  out.u32(static_cast<std::uint32_t>(Kind::kHeader));
  encode(out, header);
  SLICE_RETURN_IF_ERROR(writer->write(out.view()));
  return writer;
}

Writer::~Writer() {
  if (file_ != nullptr) std::fclose(file_);
}

Status Writer::write(ByteView payload) {
  std::uint8_t frame[kFrame];
  store_be(frame, static_cast<std::uint32_t>(payload.size()));
  store_be(frame + 4, crc32c(payload));
  const bool whole = std::fwrite(frame, 1, kFrame, file_) == kFrame &&
                     std::fwrite(payload.data(), 1, payload.size(), file_) == payload.size();
  if (!whole) return system_error(path_ + kPart);
  return {};
}

Status Writer::add(const Record& record) {
  XdrWriter out;
  std::visit(Encoder{out}, record);
  ++records_;
  return write(out.view());
}

Status Writer::finish() {
  XdrWriter out;
  out.u32(static_cast<std::uint32_t>(Kind::kEnd));
  out.u64(records_);
  SLICE_RETURN_IF_ERROR(write(out.view()));
  const std::string part = path_ + kPart;
  if (std::fflush(file_) != 0 || ::fsync(::fileno(file_)) != 0) return system_error(part);
  if (std::fclose(std::exchange(file_, nullptr)) != 0) return system_error(part);
  if (std::rename(part.c_str(), path_.c_str()) != 0) return system_error(path_);
  return {};
}

// ---- reading ----

Result<std::unique_ptr<Reader>> Reader::open(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr && errno == ENOENT) return fail(Errc::kNotFound, "there is no {}", path);
  if (file == nullptr) return system_error(path);
  std::unique_ptr<Reader> reader(new Reader(path, file));
  auto first = reader->read();
  if (!first) return fail(std::move(first).error());
  if (Status header = decode(first->view(), reader->header_); !header)
    return fail(header.error().code, "{}: {}", path, header.error().message);
  return reader;
}

Reader::~Reader() {
  std::fclose(file_);
}

tl::unexpected<Error> Reader::damaged(std::string_view what) const {
  return fail(Errc::kCorrupt, "{}, at byte {}: {}", path_, at_, what);
}

Result<Buffer> Reader::read() {
  std::uint8_t frame[kFrame];
  const std::size_t got = std::fread(frame, 1, kFrame, file_);
  if (std::ferror(file_) != 0) return system_error(path_);
  if (got != kFrame) return damaged("it ends in the midst, and is not whole");
  const std::uint32_t length = load_be<std::uint32_t>(frame);
  if (length > kMaxPayload) return damaged("a record of more than 16 MiB");
  Buffer payload;
  if (std::fread(payload.extend(length), 1, length, file_) != length)
    return damaged("it ends in the midst, and is not whole");
  if (crc32c(payload.view()) != load_be<std::uint32_t>(frame + 4))
    return damaged("a record whose checksum does not fit");
  at_ += kFrame + length;
  return payload;
}

Result<std::optional<Record>> Reader::next() {
  if (ended_) return std::optional<Record>();
  auto payload = read();
  if (!payload) return fail(std::move(payload).error());
  XdrReader in(payload->view());
  std::optional<Record> record;
  switch (static_cast<Kind>(in.u32())) {
    case Kind::kCell:
      record = decode_cell(in);
      break;
    case Kind::kImage:
      record = decode_image(in);
      break;
    case Kind::kStateFile:
      record = decode_state_file(in);
      break;
    case Kind::kEnd:
      ended_ = true;
      if (in.u64() != records_) return damaged("records are missing before its end");
      break;
    default:
      return damaged("a record of no kind");
  }
  if (!in.complete()) return damaged("a record that does not decode");
  if (record) ++records_;
  return record;
}

std::string made_for(const EnsembleConfig& config, wire::Role role) {
  const std::uint32_t sites =
      role == wire::Role::kManager ? 0 : config.site_counts[static_cast<std::size_t>(role)];
  if (role == wire::Role::kDirectory) return dirserver::format_text(config.volume, sites);
  if (role == wire::Role::kSmallFile)
    return fmt::format("small files 1 threshold={} sites={}", config.volume.threshold, sites);
  return "manager 1";
}

Result<std::vector<std::unique_ptr<Reader>>> open_all(const std::string& folder, wire::Role role) {
  std::error_code error;
  std::vector<std::string> paths;
  for (const auto& each : std::filesystem::directory_iterator(folder, error)) {
    if (each.path().extension() == kSuffix) paths.push_back(each.path().string());
  }
  if (error) return fail(Errc::kNotFound, "{}: {}", folder, error.message());
  std::sort(paths.begin(), paths.end());
  std::vector<std::unique_ptr<Reader>> readers;
  for (const std::string& path : paths) {
    auto reader = Reader::open(path);
    if (!reader) return fail(std::move(reader).error());
    if ((*reader)->header().role == role) readers.push_back(std::move(*reader));
  }
  if (readers.empty())
    return fail(Errc::kNotFound, "{} has nothing of a {} server", folder, wire::role_name(role));
  return readers;
}

}  // namespace slice::backup
