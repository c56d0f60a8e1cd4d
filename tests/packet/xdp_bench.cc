// `./slice bench xdp`: nanoseconds per packet of the XDP program by procedure,
// beside the least a program can do, in the same run. Two ways:
//   run   BPF_PROG_RUN with repetitions: the program alone, over its own output
//   live  BPF_F_TEST_XDP_LIVE_FRAMES: frames really transmitted into a veth pair
//         of a network namespace of our own, and dropped by its other end
// Requests come by the interface towards the server, and leave by it; replies come by it to
// a client at another, since where both share one nothing is learned.
// Rounds interleave all cases; a figure is the mean of the middle half of its rounds. So that the
// program does all its work at every repetition, the "server" is the virtual
// address itself: a routed packet comes out as it went in. The program is told that
// it runs on network cards, so that packets leave by XDP_TX, as the baseline's do,
// but for read_redirect.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "baseline.skel.h"
#include "bpf/shared/attributes.h"
#include "tests/packet/packet_builder.h"
#include "tests/packet/stages.h"
#include "tests/packet/xdp_harness.h"

namespace {

using namespace slice::packet;

struct Options {
  bool json = false;
  int rounds = 15;
  int run_repeat = 300000;
  int live_repeat = 150000;
  std::string only;  // comma-separated names of cases, with xdp_tx, redirect and read
};

// Batches measured beside the default: a network card's poll finds fewer frames
// than 64 unless it is saturated, and each flush then costs more a frame.
constexpr uint32_t kBatches[] = {4, 16};

struct Case {
  std::string name;
  int program;
  Bytes frame;
  bool live;                      // transmits, so that live frames measure it
  std::function<void()> prepare;  // before every measurement; may be empty
  std::vector<double> run_ns;
  std::vector<double> live_ns;
  uint32_t batch = 0;  // frames between flushes in live mode; 0: the kernel's default, 64
};

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "xdp_bench: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

// The mean of the middle half: as robust as the median, and finer than the whole
// nanoseconds that the kernel reports.
double middle(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  auto quarter = static_cast<std::ptrdiff_t>(v.size() / 4);
  auto count = static_cast<double>(v.size()) - 2.0 * static_cast<double>(quarter);
  return std::accumulate(v.begin() + quarter, v.end() - quarter, 0.0) / count;
}

// Another veth pair in the harness's network namespace: frames sent into the first end
// arrive at the second, where a program drops them. So do those sent to `clients`.
unsigned make_link(int drop_program) {
  if (std::system("ip link add slice0 type veth peer name slice1 && ip link set slice0 up && "
                  "ip link set slice1 up") != 0) {
    fail("ip link");
  }
  for (const char* end : {"slice1", "clients-peer"}) {
    unsigned peer = if_nametoindex(end);
    if (bpf_xdp_attach(static_cast<int>(peer), drop_program, XDP_FLAGS_DRV_MODE, nullptr) != 0) {
      fail("attaching to the veth");
    }
  }
  return if_nametoindex("slice0");
}

void pin_to_processor(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) fail("sched_setaffinity");
}

double measure(const Case& c, unsigned ifindex, int repeat, bool live) {
  if (c.prepare) c.prepare();
  xdp_md context{};
  context.data_end = static_cast<uint32_t>(c.frame.size());
  context.ingress_ifindex = ifindex;
  bpf_test_run_opts options{};
  options.sz = sizeof options;
  options.data_in = c.frame.data();
  options.data_size_in = static_cast<uint32_t>(c.frame.size());
  options.ctx_in = &context;
  options.ctx_size_in = sizeof context;
  options.repeat = repeat;
  if (live) {
    options.flags = BPF_F_TEST_XDP_LIVE_FRAMES;
    options.batch_size = c.batch;
  }
  if (bpf_prog_test_run_opts(c.program, &options) != 0) fail(c.name.c_str());
  return options.duration;
}

// The one server, behind `ifindex`. `shared`: the client is there too, so that what is routed leaves where it
// came from, and its reply would teach nothing; else the client is at the harness's `clients`.
void place(XdpHarness& xdp, unsigned ifindex, bool shared) {
  static int now = -1;
  if (now != static_cast<int>(shared)) {
    for (const char* client : {"10.77.1.2/32", "fd77::1:2/128"})
      xdp.route(client + std::string(" dev ") + (shared ? "slice0" : "clients"));
  }
  now = static_cast<int>(shared);
  Flow flow;
  slice_server server{};
  server.doubts = shared ? SLICE_SERVER_SHARED : 0;
  std::copy(flow.destination.begin(), flow.destination.end(), server.ipv4);
  server.port = 2049;
  server.ifindex = ifindex;
  std::copy(flow.destination_mac.begin(), flow.destination_mac.end(), server.next_hop_mac);
  std::copy(flow.source_mac.begin(), flow.source_mac.end(), server.source_mac);
  xdp.set_server(1, server);
  slice_server6 over_ipv6{.server = server, .ipv6 = {}};
  std::memset(over_ipv6.server.ipv4, 0, 4);
  std::copy(Flow6{}.destination.begin(), Flow6{}.destination.end(), over_ipv6.ipv6);
  xdp.set_server6(1, over_ipv6);
}

// The ensemble of one server that is the virtual address itself.
void loop_back_ensemble(XdpHarness& xdp, unsigned ifindex) {
  place(xdp, ifindex, true);
  for (uint32_t c = 0; c < SLICE_CLASSES; c++) {
    for (uint32_t s = 0; s <= xdp.config().site_mask[c]; s++) xdp.bind(c, s, 1);
  }
  xdp.ingress_ifindex = ifindex;
}

// Knows the attributes of the default handle's file; nlink 0 in them keeps room
// that was filled with them room, for the next repetition.
void know_file(XdpHarness& xdp, uint32_t nlink) {
  HandleFields file;
  slice_attr_bucket bucket{};
  bucket.fileid[0] = file.fileid;
  bucket.flags[0] = SLICE_ATTR_VALID;
  bucket.learned_ms[0] = xdp.config().now_ms;
  bucket.entry[0].size = 1 << 20;
  slice_attr_publish(&bucket, 0);
  Attributes a;
  a.size = 1 << 20;
  a.nlink = nlink;
  Bytes wire = fattr3(a);
  std::memcpy(bucket.entry[0].base, wire.data(), wire.size());
  xdp.set_bucket(file.fileid, bucket);
}

class Suite {
 public:
  Suite(XdpHarness& xdp, unsigned ifindex, std::vector<Case>& cases)
      : xdp_(xdp), ifindex_(ifindex), cases_(cases) {}

  void add(const std::string& name, const Bytes& frame, std::function<void()> prepare = {},
           bool live = true) {
    cases_.push_back({name, xdp_.program(), frame, live, std::move(prepare), {}, {}});
  }

  // The call's frame, with an xid of its own: a request that replaces another is a case of its own.
  template <class Family = Flow>
  Bytes call(uint32_t procedure, const Bytes& arguments) {
    CallHeader header;
    header.xid = ++xid_;
    header.procedure = procedure;
    return udp_frame(Family{}, rpc_call(header, arguments));
  }

  // `tx`: leaves by XDP_TX, as the baseline does; else by redirect.
  std::function<void()> with_config(uint32_t policy, uint32_t hash, uint32_t nlink = 1, bool tx = true) {
    return [this, policy, hash, nlink, tx] {
      xdp_.config().flags = SLICE_CONFIG_PATCH | (tx ? SLICE_CONFIG_CARDS : 0);
      xdp_.config().policy = policy;
      xdp_.config().name_hash = hash;
      xdp_.apply();
      know_file(xdp_, nlink);
      place(xdp_, ifindex_, true);
    };
  }

  // Lets the request pass whose reply is measured, from a client at an interface of its own.
  std::function<void()> after_request(std::function<void()> prepare, const Bytes& request) {
    return [this, prepare = std::move(prepare), request] {
      prepare();
      place(xdp_, ifindex_, false);
      xdp_.ingress_ifindex = xdp_.clients_ifindex;
      xdp_.run(request);
      xdp_.ingress_ifindex = ifindex_;
    };
  }

  void add_requests() {
    Bytes handle = handle_bytes({});
    auto plain = with_config(SLICE_POLICY_MKDIR_SWITCHING, SLICE_NAME_HASH_MD5);
    auto md5 = with_config(SLICE_POLICY_NAME_HASHING, SLICE_NAME_HASH_MD5);
    auto sip = with_config(SLICE_POLICY_NAME_HASHING, SLICE_NAME_HASH_SIPHASH13);
    static constexpr const char* kNames[] = {
        "null",    "getattr",     "setattr", "lookup", "access",   "readlink", "read",   "write",
        "create",  "mkdir",       "symlink", "mknod",  "remove",   "rmdir",    "rename", "link",
        "readdir", "readdirplus", "fsstat",  "fsinfo", "pathconf", "commit"};
    for (uint32_t p = 1; p <= 21; p++) {
      if (p == 7 || p == 17) continue;
      add(kNames[p], call(p, some_arguments(p, handle, "twelve-bytes")), plain);
    }
    add("read_redirect", call(6, some_arguments(6, handle)),
        with_config(SLICE_POLICY_MKDIR_SWITCHING, SLICE_NAME_HASH_MD5, 1, false));
    add("write_1k", call(7, write_arguments(handle, 0, 1024, 1024)), plain);
    for (size_t length : {12, 64, 255}) {
      Bytes frame = call(3, name_arguments(handle, std::string(length, 'n')));
      add("lookup_hashed_md5_" + std::to_string(length), frame, md5);
      add("lookup_hashed_siphash13_" + std::to_string(length), frame, sip);
    }
    CallHeader header;
    header.xid = ++xid_;
    header.procedure = 7;
    auto fragments = udp_fragments(Flow{}, rpc_call(header, write_arguments(handle, 0, 32768, 32768)));
    add("write_first_fragment", fragments[0], plain);
    add("write_later_fragment", fragments[1], [this, plain, first = fragments[0]] {
      plain();
      xdp_.run(first);
    });
  }

  void add_ipv6() {
    Bytes handle = handle_bytes({});
    auto plain = with_config(SLICE_POLICY_MKDIR_SWITCHING, SLICE_NAME_HASH_MD5);
    add("ipv6_getattr", call<Flow6>(1, some_arguments(1, handle)), plain);
    add("ipv6_read", call<Flow6>(6, some_arguments(6, handle)), plain);
    add("ipv6_write_1k", call<Flow6>(7, write_arguments(handle, 0, 1024, 1024)), plain);
    Bytes request = call<Flow6>(1, some_arguments(1, handle));
    add("ipv6_reply_getattr_learned",
        udp_frame(reversed(Flow6{}), rpc_reply(xid_, join({word(0), fattr3({.size = 1 << 20})}))),
        after_request(plain, request));
  }

  // How far a READ gets before it stops: each stage contains those before it.
  void add_stages() {
    Bytes handle = handle_bytes({});
    auto plain = with_config(SLICE_POLICY_MKDIR_SWITCHING, SLICE_NAME_HASH_MD5);
    Flow elsewhere;
    elsewhere.destination = {10, 77, 9, 9};
    add("stage_headers_not_ours", udp_frame(elsewhere, Bytes(64, 0)), plain, false);
    add("stage_rpc_header", call(0, {}), plain, false);
    Bytes mapped = handle_bytes({.flags = 2});
    add("stage_parsed_and_peeked", call(6, read_arguments(mapped, 1 << 20, 4096)), plain, false);
  }

  // The same packets through the programs of stages.bpf.c: "cut_read_decoded" ends when a READ is decoded.
  void add_cuts(const Stages& cut) {
    Bytes handle = handle_bytes({});
    std::string name = "twelve-bytes";
    add_cut_path(cut, "read", "read", call(6, some_arguments(6, handle)));
    add_cut_path(cut, "getattr", "request", call(1, some_arguments(1, handle)));
    add_cut_path(cut, "lookup", "request", call(3, name_arguments(handle, name)));
    add_cut_path(cut, "write_1k", "request", call(7, write_arguments(handle, 0, 1024, 1024)));
    Bytes getattr = join({word(0), fattr3({.size = 1 << 20})});
    Bytes request = call(1, some_arguments(1, handle));
    add_cut_path(cut, "reply_getattr", "reply", udp_frame(reversed(Flow{}), rpc_reply(xid_, getattr)),
                 request);
  }

  void add_replies() {
    Flow flow = reversed(Flow{});
    auto reply = [&](const std::string& name, uint32_t procedure, const Bytes& results, uint32_t nlink) {
      auto plain = with_config(SLICE_POLICY_MKDIR_SWITCHING, SLICE_NAME_HASH_MD5, nlink);
      Bytes request = call(procedure, some_arguments(procedure, handle_bytes({})));
      Bytes frame = udp_frame(flow, rpc_reply(xid_, results));
      add(name, frame, after_request(plain, request));
    };
    Attributes room;
    room.nlink = 0;
    room.mtime = 5;
    reply("reply_getattr_learned", 1, join({word(0), fattr3({.size = 1 << 20})}), 1);
    reply("reply_read_room_1k", 6,
          join({word(0), post_op(room), word(1024), word(0), word(1024), Bytes(1024, 1)}), 0);
    reply("reply_write_room", 7, join({word(0), wcc(room), word(512), word(2), Bytes(8, 3)}), 0);
    reply("reply_no_attributes", 1, word(70), 1);
  }

 private:
  // `frame` through every program of that path; `before` has passed when it comes, where there is one.
  void add_cut_path(const Stages& cut, const std::string& name, const std::string& path, const Bytes& frame,
                    const Bytes& before = {}) {
    auto plain = with_config(SLICE_POLICY_MKDIR_SWITCHING, SLICE_NAME_HASH_MD5);
    auto prepare = before.empty() ? plain : after_request(plain, before);
    for (const auto& [stage, program] : cut.of(path)) {
      cases_.push_back({"cut_" + name + "_" + stage, program, frame, false, prepare, {}, {}});
    }
  }

  XdpHarness& xdp_;
  unsigned ifindex_;
  uint32_t xid_ = 0x1000;  // of the last call
  std::vector<Case>& cases_;
};

struct Figure {
  std::string name;
  std::string unit;
  double value;
};

const Case& find(const std::vector<Case>& cases, const std::string& name) {
  for (const Case& c : cases) {
    if (c.name == name) return c;
  }
  fail(name.c_str());
}

// Over rounds, the ratio within one round, which drift cannot skew.
double ratio(const Case& a, const Case& b, std::vector<double> Case::* rounds) {
  std::vector<double> v;
  for (size_t i = 0; i < (a.*rounds).size(); i++) v.push_back((a.*rounds)[i] / (b.*rounds)[i]);
  return middle(v);
}

std::vector<Figure> figures_of(const std::vector<Case>& cases) {
  std::vector<Figure> figures;
  for (const Case& c : cases) {
    figures.push_back({c.name + "_run", "ns/packet", middle(c.run_ns)});
    if (c.live) figures.push_back({c.name + "_live", "ns/packet", middle(c.live_ns)});
  }
  const Case& tx = find(cases, "xdp_tx");
  const Case& read = find(cases, "read");
  figures.push_back({"read_route_over_xdp_tx_run", "ratio", ratio(read, tx, &Case::run_ns)});
  figures.push_back({"read_route_over_xdp_tx_live", "ratio", ratio(read, tx, &Case::live_ns)});
  figures.push_back({"read_route_over_redirect_live", "ratio",
                     ratio(find(cases, "read_redirect"), find(cases, "redirect"), &Case::live_ns)});
  for (uint32_t batch : kBatches) {
    std::string suffix = "_batch_" + std::to_string(batch);
    figures.push_back({"read_route_over_xdp_tx_live" + suffix, "ratio",
                       ratio(find(cases, "read" + suffix), find(cases, "xdp_tx" + suffix), &Case::live_ns)});
  }
  return figures;
}

void print(const std::vector<Figure>& figures, bool json) {
  if (!json) {
    for (const Figure& f : figures) std::printf("%-40s %10.2f %s\n", f.name.c_str(), f.value, f.unit.c_str());
    return;
  }
  std::printf("{\"benchmark\": \"xdp\", \"figures\": [");
  for (size_t i = 0; i < figures.size(); i++) {
    std::printf("%s\n {\"name\": \"%s\", \"unit\": \"%s\", \"value\": %.3f}", i ? "," : "",
                figures[i].name.c_str(), figures[i].unit.c_str(), figures[i].value);
  }
  std::printf("\n]}\n");
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i++) {
    std::string word_given = argv[i];
    if (word_given == "--json") {
      options.json = true;
    } else if (word_given == "--rounds" && i + 1 < argc) {
      options.rounds = std::max(1, std::atoi(argv[++i]));
    } else if (word_given == "--only" && i + 1 < argc) {
      options.only = std::string(",xdp_tx,redirect,read,read_redirect,") + argv[++i] + ",";
      for (uint32_t batch : kBatches) {
        options.only +=
            "xdp_tx_batch_" + std::to_string(batch) + ",read_batch_" + std::to_string(batch) + ",";
      }
    } else {
      std::fprintf(stderr, "usage: xdp_bench [--json] [--rounds N] [--only CASE,CASE...]\n");
      std::exit(2);
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  Options options = parse(argc, argv);
  baseline* base = baseline__open_and_load();
  if (!base) fail("loading the baseline programs (run as root)");
  pin_to_processor(1);
  XdpHarness xdp;
  unsigned ifindex = make_link(bpf_program__fd(base->progs.baseline_drop));
  loop_back_ensemble(xdp, ifindex);
  std::vector<Case> cases;
  Bytes bare =
      udp_frame(Flow{}, rpc_call(CallHeader{.procedure = 6}, read_arguments(handle_bytes({}), 4096, 4096)));
  cases.push_back({"drop", bpf_program__fd(base->progs.baseline_drop), bare, true, {}, {}, {}});
  cases.push_back({"xdp_tx", bpf_program__fd(base->progs.baseline_tx), bare, true, {}, {}, {}});
  cases.push_back({"redirect", bpf_program__fd(base->progs.baseline_redirect), bare, true, {}, {}, {}});
  Suite suite(xdp, ifindex, cases);
  suite.add_requests();
  for (uint32_t batch : kBatches) {
    for (const char* name : {"xdp_tx", "read"}) {
      Case copy = find(cases, name);
      copy.name += "_batch_" + std::to_string(batch);
      copy.batch = batch;
      cases.push_back(copy);
    }
  }
  suite.add_stages();
  Stages cut(xdp);
  suite.add_cuts(cut);
  suite.add_replies();
  suite.add_ipv6();
  if (!options.only.empty()) {
    std::erase_if(cases,
                  [&](const Case& c) { return options.only.find("," + c.name + ",") == std::string::npos; });
  }
  for (int round = 0; round < options.rounds; round++) {
    for (Case& c : cases) {
      c.run_ns.push_back(measure(c, ifindex, options.run_repeat, false));
      if (c.live) c.live_ns.push_back(measure(c, ifindex, options.live_repeat, true));
    }
  }
  print(figures_of(cases), options.json);
  baseline__destroy(base);
  return 0;
}
