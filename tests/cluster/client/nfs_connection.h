// An NFSv3 client for tests and benchmarks: libnfs's codec over a transport of our own, over UDP or TCP.
//
// The codec is not the one that the servers use, so that each is a check of the other. The transport is our
// own because tests need what libnfs hides: retransmission under the same xid, connections that come back,
// xids chosen by hand. A connection behaves as a kernel's hard mount does: it sends again until the answer
// comes.
//
// Single-threaded: callbacks run inside `run_once`. Calls that no answer reached within the patience end with
// an error.
#ifndef SLICE_TESTS_CLUSTER_CLIENT_NFS_CONNECTION_H
#define SLICE_TESTS_CLUSTER_CLIENT_NFS_CONNECTION_H

#include <nfsc/libnfs-zdr.h>
// After libnfs-zdr.h, which they need.
#include <nfsc/libnfs-raw-mount.h>
#include <nfsc/libnfs-raw-nfs.h>
#include <nfsc/libnfs-raw-nlm.h>
#include <nfsc/libnfs-raw-portmap.h>

#include <arpa/inet.h>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <vector>

namespace slice::client {

enum class Transport { kUdp, kTcp };

// Seconds on the monotonic clock.
double now();

// Whom a call comes from (AUTH_SYS).
struct Credential {
  std::uint32_t user = 0, group = 0;
  std::vector<std::uint32_t> groups = {};
};

// Why a call got no result: no answer in time, or an RPC-level refusal.
struct RpcError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One procedure of a program: its number and its libnfs codecs.
template <typename Arguments, typename Result>
struct Procedure {
  std::uint32_t program, version, number;
  std::uint32_t (*encode)(ZDR*, Arguments*);
  std::uint32_t (*decode)(ZDR*, Result*);
};

// A decoded result together with the memory it points into.
template <typename Result>
class Decoded {
 public:
  Decoded(std::shared_ptr<std::string> record, std::size_t offset, std::uint32_t (*decode)(ZDR*, Result*))
      : record_(std::move(record)) {
    std::memset(&result_, 0, sizeof result_);
    libnfs_zdrmem_create(&codec_, record_->data() + offset,
                         static_cast<std::uint32_t>(record_->size() - offset), ZDR_DECODE);
    good_ = decode(&codec_, &result_) != 0;
  }
  Decoded(const Decoded&) = delete;
  Decoded& operator=(const Decoded&) = delete;
  ~Decoded() { libnfs_zdr_destroy(&codec_); }
  bool good() const { return good_; }
  const Result& operator*() const { return result_; }
  const Result* operator->() const { return &result_; }

 private:
  std::shared_ptr<std::string> record_;
  ZDR codec_;
  Result result_;
  bool good_ = false;
};

template <typename Result>
using Answer = std::shared_ptr<const Decoded<Result>>;

struct ConnectionOptions {
  std::string server;  // numeric address
  std::uint16_t port = 2049;
  Transport transport = Transport::kTcp;
  Credential credential = {};
  double resend_after =
      1.0;  // seconds; UDP doubles it up to 4 s, TCP reconnects after 15 times that without an answer
  double patience = 60.0;  // seconds until a call fails
};

// What a connection did besides sending each call once.
struct ConnectionCounters {
  std::uint64_t resent = 0, reconnects = 0;
  std::uint64_t told_to_wait = 0;  // answered JUKEBOX and made anew
  double longest_wait = 0;         // seconds between a call and its answer
};

class NfsConnection {
 public:
  explicit NfsConnection(ConnectionOptions options);
  NfsConnection(const NfsConnection&) = delete;
  NfsConnection& operator=(const NfsConnection&) = delete;
  ~NfsConnection();

  // Called once with the record that holds the reply and the results' offset in it, or with an error text.
  using RawDone =
      std::function<void(std::shared_ptr<std::string> record, std::size_t offset, const std::string& error)>;

  // Sends a call; `arguments` are encoded already. `xid` 0 takes the next one.
  void call_raw(std::uint32_t program, std::uint32_t version, std::uint32_t procedure,
                std::string_view arguments, RawDone done, std::uint32_t xid = 0);

  // Sends a call; `done` gets the answer, or null and the error.
  template <typename Arguments, typename Result>
  void call_async(const Procedure<Arguments, Result>& procedure, Arguments arguments,
                  std::function<void(Answer<Result>, const std::string& error)> done, std::uint32_t xid = 0) {
    call_raw(
        procedure.program, procedure.version, procedure.number, encode(procedure, arguments),
        [done = std::move(done), decode = procedure.decode](std::shared_ptr<std::string> record,
                                                            std::size_t offset, const std::string& error) {
          if (!error.empty()) return done(nullptr, error);
          auto answer = std::make_shared<const Decoded<Result>>(std::move(record), offset, decode);
          if (!answer->good()) return done(nullptr, "results that libnfs cannot decode");
          done(answer, {});
        },
        xid);
  }

  // Sends a call and waits for its answer. One that is answered JUKEBOX ("wait") is made anew a little later
  // under an xid of its own, unless `xid` gives one. Throws RpcError.
  template <typename Arguments, typename Result>
  Answer<Result> call(const Procedure<Arguments, Result>& procedure, Arguments arguments,
                      std::uint32_t xid = 0) {
    const double start = now();
    for (double pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
      Answer<Result> answer = call_once(procedure, arguments, xid);
      if (xid != 0 || !told_to_wait(**answer)) return answer;
      ++counters_.told_to_wait;
      if (now() - start > options_.patience) throw RpcError("nothing but JUKEBOX within the patience");
      std::this_thread::sleep_for(std::chrono::duration<double>(pause));
    }
  }

  // Receives, sends and resends for at most `seconds`, less when something happened.
  void run_once(double seconds);
  std::size_t outstanding() const { return pending_.size(); }
  const ConnectionCounters& counters() const { return counters_; }
  // Counts in the machine's byte order on the wire, as Linux does.
  std::uint32_t next_xid() { return htonl(++last_xid_); }
  void set_credential(Credential credential) { options_.credential = std::move(credential); }

 private:
  struct Pending {
    std::string record;  // with its record mark over TCP
    std::uint32_t program = 0, procedure = 0;
    RawDone done;
    double started = 0, resend_at = 0, pause = 0;
  };

  static constexpr double kFirstPause = 0.01, kLongestPause = 0.5;  // seconds, after a JUKEBOX

  template <typename Result>
  static bool told_to_wait(const Result& result) {
    if constexpr (requires { requires std::same_as<std::decay_t<decltype(result.status)>, nfsstat3>; })
      return result.status == NFS3ERR_JUKEBOX;
    return false;
  }

  template <typename Arguments, typename Result>
  Answer<Result> call_once(const Procedure<Arguments, Result>& procedure, const Arguments& arguments,
                           std::uint32_t xid) {
    Answer<Result> answer;
    std::string failure;
    bool finished = false;
    call_async<Arguments, Result>(
        procedure, arguments,
        [&](Answer<Result> got, const std::string& error) {
          answer = std::move(got);
          failure = error;
          finished = true;
        },
        xid);
    while (!finished) run_once(0.1);
    if (!answer) throw RpcError(failure);
    return answer;
  }

  template <typename Arguments, typename Result>
  std::string_view encode(const Procedure<Arguments, Result>& procedure, Arguments& arguments) {
    if (encoded_.empty()) encoded_.resize(kLargestRecord);
    ZDR codec;
    libnfs_zdrmem_create(&codec, encoded_.data(), static_cast<std::uint32_t>(encoded_.size()), ZDR_ENCODE);
    const bool good = procedure.encode(&codec, &arguments) != 0;
    const std::uint32_t size = libnfs_zdr_getpos(&codec);
    libnfs_zdr_destroy(&codec);
    if (!good) throw RpcError("arguments that libnfs cannot encode");
    return std::string_view(encoded_).substr(0, size);
  }

  static constexpr std::size_t kLargestRecord = (1 << 20) + 4096;

  void open_socket();
  void lose_connection();
  void send_record(const std::string& record);
  void flush();
  void receive();
  bool take_stream();
  void take_reply(std::shared_ptr<std::string> record);
  void resend_late();

  ConnectionOptions options_;
  int socket_ = -1;
  bool connected_ = false;
  double connect_at_ = 0;
  double heard_at_ = 0;
  std::uint32_t last_xid_;
  std::unordered_map<std::uint32_t, Pending> pending_;
  std::string out_;  // TCP: not yet sent
  std::size_t sent_ = 0;
  std::string in_;  // TCP: not yet taken apart
  std::vector<char> received_;
  std::size_t taken_ = 0;
  std::string fragments_;
  std::string encoded_;  // room for arguments
  double resend_checked_ = 0;
  ConnectionCounters counters_;
};

// --- the procedures
// ------------------------------------------------------------------------------------------------

struct Nothing {};
std::uint32_t codec_nothing(ZDR*, Nothing*);

inline constexpr std::uint32_t kNfs = 100003, kMount = 100005, kPortmap = 100000;

inline constexpr Procedure<Nothing, Nothing> kNull{kNfs, 3, 0, codec_nothing, codec_nothing};
inline constexpr Procedure<NLM4_LOCKargs, NLM4_LOCKres> kLock{100021, 4, 2, zdr_NLM4_LOCKargs,
                                                              zdr_NLM4_LOCKres};
inline constexpr Procedure<GETATTR3args, GETATTR3res> kGetattr{kNfs, 3, 1, zdr_GETATTR3args, zdr_GETATTR3res};
inline constexpr Procedure<SETATTR3args, SETATTR3res> kSetattr{kNfs, 3, 2, zdr_SETATTR3args, zdr_SETATTR3res};
inline constexpr Procedure<LOOKUP3args, LOOKUP3res> kLookup{kNfs, 3, 3, zdr_LOOKUP3args, zdr_LOOKUP3res};
inline constexpr Procedure<ACCESS3args, ACCESS3res> kAccess{kNfs, 3, 4, zdr_ACCESS3args, zdr_ACCESS3res};
inline constexpr Procedure<READLINK3args, READLINK3res> kReadlink{kNfs, 3, 5, zdr_READLINK3args,
                                                                  zdr_READLINK3res};
inline constexpr Procedure<READ3args, READ3res> kRead{kNfs, 3, 6, zdr_READ3args, zdr_READ3res};
inline constexpr Procedure<WRITE3args, WRITE3res> kWrite{kNfs, 3, 7, zdr_WRITE3args, zdr_WRITE3res};
inline constexpr Procedure<CREATE3args, CREATE3res> kCreate{kNfs, 3, 8, zdr_CREATE3args, zdr_CREATE3res};
inline constexpr Procedure<MKDIR3args, MKDIR3res> kMkdir{kNfs, 3, 9, zdr_MKDIR3args, zdr_MKDIR3res};
inline constexpr Procedure<SYMLINK3args, SYMLINK3res> kSymlink{kNfs, 3, 10, zdr_SYMLINK3args,
                                                               zdr_SYMLINK3res};
inline constexpr Procedure<MKNOD3args, MKNOD3res> kMknod{kNfs, 3, 11, zdr_MKNOD3args, zdr_MKNOD3res};
inline constexpr Procedure<REMOVE3args, REMOVE3res> kRemove{kNfs, 3, 12, zdr_REMOVE3args, zdr_REMOVE3res};
inline constexpr Procedure<RMDIR3args, RMDIR3res> kRmdir{kNfs, 3, 13, zdr_RMDIR3args, zdr_RMDIR3res};
inline constexpr Procedure<RENAME3args, RENAME3res> kRename{kNfs, 3, 14, zdr_RENAME3args, zdr_RENAME3res};
inline constexpr Procedure<LINK3args, LINK3res> kLink{kNfs, 3, 15, zdr_LINK3args, zdr_LINK3res};
inline constexpr Procedure<READDIR3args, READDIR3res> kReaddir{kNfs, 3, 16, zdr_READDIR3args,
                                                               zdr_READDIR3res};
inline constexpr Procedure<READDIRPLUS3args, READDIRPLUS3res> kReaddirplus{kNfs, 3, 17, zdr_READDIRPLUS3args,
                                                                           zdr_READDIRPLUS3res};
inline constexpr Procedure<FSSTAT3args, FSSTAT3res> kFsstat{kNfs, 3, 18, zdr_FSSTAT3args, zdr_FSSTAT3res};
inline constexpr Procedure<FSINFO3args, FSINFO3res> kFsinfo{kNfs, 3, 19, zdr_FSINFO3args, zdr_FSINFO3res};
inline constexpr Procedure<PATHCONF3args, PATHCONF3res> kPathconf{kNfs, 3, 20, zdr_PATHCONF3args,
                                                                  zdr_PATHCONF3res};
inline constexpr Procedure<COMMIT3args, COMMIT3res> kCommit{kNfs, 3, 21, zdr_COMMIT3args, zdr_COMMIT3res};
inline constexpr Procedure<dirpath, mountres3> kMnt{kMount, 3, 1, zdr_dirpath, zdr_mountres3};
inline constexpr Procedure<Nothing, exports> kExport{kMount, 3, 5, codec_nothing, zdr_exports};
inline constexpr Procedure<pmap2_mapping, u_int> kGetport{kPortmap, 2, 3, zdr_pmap2_mapping,
                                                          libnfs_zdr_u_int};

// --- arguments in short
// --------------------------------------------------------------------------------------------

// A file handle that owns its bytes. The libnfs structures made from it are valid while it lives.
class Handle {
 public:
  Handle() = default;
  explicit Handle(std::string bytes) : bytes_(std::move(bytes)) {}
  explicit Handle(const nfs_fh3& from) : bytes_(from.data.data_val, from.data.data_len) {}
  nfs_fh3 raw() const& {
    nfs_fh3 handle;
    handle.data.data_len = static_cast<u_int>(bytes_.size());
    handle.data.data_val = const_cast<char*>(bytes_.data());
    return handle;
  }
  nfs_fh3 raw() const&& = delete;
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// The arguments point into handle and name, which must outlive them.
diropargs3 in_folder(const Handle& folder, const char* name);
inline diropargs3 in_folder(const Handle& folder, const std::string& name) {
  return in_folder(folder, name.c_str());
}
diropargs3 in_folder(const Handle& folder, std::string&& name) = delete;
sattr3 no_attributes();
sattr3 with_mode(std::uint32_t mode);
sattr3 with_size(std::uint64_t size);
WRITE3args write_arguments(const Handle& file, std::uint64_t offset, std::string_view bytes,
                           stable_how stable);
READ3args read_arguments(const Handle& file, std::uint64_t offset, std::uint32_t count);
CREATE3args create_arguments(const Handle& folder, const char* name, createmode3 mode,
                             std::uint32_t bits = 0644);
inline CREATE3args create_arguments(const Handle& folder, const std::string& name, createmode3 mode) {
  return create_arguments(folder, name.c_str(), mode);
}
CREATE3args create_arguments(const Handle& folder, std::string&& name, createmode3 mode) = delete;
const char* status_name(nfsstat3 status);

// The root of an export, by MNT at the mount port, over the same transport. Throws RpcError.
Handle mount_root(const ConnectionOptions& options, std::uint16_t mount_port, const std::string& path);

}  // namespace slice::client

#endif  // SLICE_TESTS_CLUSTER_CLIENT_NFS_CONNECTION_H
