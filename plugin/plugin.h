/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The structures of meted's Kubernetes part; struct plugin leads to everything. It runs on meted's
 * loop.
 *
 *	opening.c        opening and closing
 *	active_config.c  the configuration and the profile that are in force
 *	active_file.c    its text, and which of several it is
 *	refused.c        what of it was refused, for `mete doctor`
 *	serve.c          the device plugin's calls
 *	allocate.c       one of them: Allocate
 *	offered.c        the list of devices
 *	as_nvidia.c      Allocate as NVIDIA's device plugin answers it, if the file has no `mete`
 *	driver_cdi.c     CDI files of the driver, for the strategies of that plugin that need them
 *	node_features.c  the labels of GPU feature discovery
 *	kinds.c          under which names, where MIG has divided GPUs
 *	mig_label.c      GPUs are divided as a label says
 *	parts.c          parts of GPUs are made when containers need them
 *	held.c           which devices still have a tenant there
 *	enrol.c          the kubelet's folder: our socket in it, and our registration
 *	rival.c          NVIDIA's device plugin or DRA driver, if it runs here
 *	prestart.c       which container starts, and as which tenant: PreStartContainer
 *	containers.c     containers that are bound, until their pods are gone
 *	sweep.c          detects that without an API server
 *	entitled.c       what a container is entitled to
 *	neighbours.c     how much of it the other containers on its devices leave
 *	slots.c          what a container finds: its CDI file, its folder (slots.h)
 *	cdi.c            whether containers get their devices through CDI
 *	device_files.c   the driver's files in /dev, which may appear later
 *	nodes.c          this node: its labels select among the configuration's parts
 *	pods.c           this node's pods
 *	resources.c      who holds which ids, as the kubelet answers
 *	ids_owner.c      the same, as its checkpoint says
 *	allocated.c      which ids the kubelet has given, whether their containers started or not
 *	binding_store.c  bindings and their records
 *	health.c         which devices are healthy
 *	strangers.c      processes on the devices that are not guests
 *	over.c           containers that have more than their limit
 *	waits.c          pods that wait for memory for long, hang or are stuck
 *	events.c         Kubernetes events
 *	reviews.c        who asks for the page, and what he may get
 *	metrics.c        /metrics, and metrics_text.c what it says
 *	mps/             control daemons of NVIDIA's MPS (mps/mps.h)
 *	sums/            who gets which GPU where pods are counted by amounts (sums/seats.h)
 *	dra/             the driver for dynamic resource allocation (dra/dra.h)
 */
#pragma once

#include "base/file_watch.h"
#include "base/notices.h"
#include "core/health.h"
#include "kube/api.h"
#include "kube/grpc.h"
#include "http/http.h"
#include "plugin/kubelet/binding_store.h"
#include "plugin/config/config.h"
#include "plugin/events.h"
#include "plugin/host.h"
#include "plugin/inject/inject.h"
#include "plugin/nvidia/mig_files.h"
#include "plugin/pods.h"
#include "plugin/kubelet/resources.h"
#include "plugin/strangers_pod.h"

enum { PLUGIN_PATH = 512 };

struct dra;
struct mig_label;
struct mps_hub;
struct nodes;
struct parts;
struct seats;
struct ProtobufCMessage; /* protobuf-c's */
struct V1beta1__ContainerAllocateRequest;

/* The present offer of a device. */
struct offer {
	bool shared, healthy;
	bool cordoned; /* by `mete cordon`: no new containers, even if it is healthy */
	bool dividing; /* its GPU may be divided anew just now: likewise */
	bool gone;     /* as health.c has seen it last */
	bool claimed;  /* shared out, by claims instead of slots */
	int numa;      /* the NUMA node that it is near to; -1: unknown */
	bool held;     /* by a container that had a share of it when it was mete's: for held.c */
	uint32_t slots;
	uint32_t serving; /* which of plugin.serving offers it */
};

/* True if new containers may have a device that is shared out. */
static inline bool offer_is_open(const struct offer *offer)
{
	return offer->healthy && !offer->cordoned && !offer->dividing;
}

/* Other programs that give out the devices of a node. */
enum rival { RIVAL_NONE, RIVAL_PLUGIN, RIVAL_DRIVER };

struct enrol {
	struct loop_watch folder;
	struct notices notices; /* of it */
	struct loop_timer again;
	struct grpc_client *kubelet;
	uint32_t failures;
	struct loop_timer rival_again;
	uint32_t rival_looks; /* that are left, after a socket of its came on which no process
				 listened */
	bool rival_seen;      /* its socket answered when it was last looked at */
	enum rival rival;     /* another program that gives these devices to containers, or may be
				 about to come back */
	bool rival_known;     /* it did, with this socket of the kubelet: */
	uint64_t rival_inode;
	int64_t rival_changed_ns;
	bool watched;	 /* the folder is being watched */
	char *complaint; /* the last one logged; NULL: none */
};

struct cdi_use {
	bool used, known;
	char runtime[64], kubelet[64]; /* according to the API server; "": unknown */
};

struct device_files {
	struct loop_watch watch;
	struct notices notices;
};

/* The processes at this check and at the previous one, and those that were already reported. */
struct strangers {
	uint32_t now[STRANGERS_MAX], before[STRANGERS_MAX], told[STRANGERS_MAX];
	uint32_t count, before_count, told_count;
	uint32_t events; /* that may be sent: a pod may have any number of such processes */
};

/* The list last sent to the kubelet; NULL: none. */
struct serve_said {
	uint8_t *bytes;
	size_t size;
};

enum { SERVINGS_MAX = 1 + CONFIG_KINDS_MAX, SERVING_RESOURCE = 96 };

/* A resource that the kubelet knows from us: its server, its listeners and its registration.
 * There is one, and another for each kind of parts of GPUs that has a name of its own
 * (nvidia/kinds.c). */
struct serving {
	struct plugin *plugin;
	char resource[SERVING_RESOURCE], socket[PLUGIN_PATH];
	uint32_t replicas; /* of each device, where the file has no `mete`; 0: given whole */
	struct grpc_server *server;
	struct list streams; /* of ListAndWatch */
	struct serve_said said;
	struct grpc_asked *asked;
	uint64_t kubelet_inode; /* of the socket where it is registered; 0: none */
	int64_t kubelet_changed_ns;
	uint64_t asked_inode;
	int64_t asked_changed_ns;
	uint64_t since_ns; /* that it is registered */
};

struct plugin {
	const struct host *host;
	char *config_path; /* a file, or a folder of named ones */
	char *config_file; /* the one that is read; of a folder without one: "FOLDER/" */
	bool config_is_folder;
	struct fault unchosen; /* "": a folder has one for this node */
	char *config_text;     /* as last read */
	bool config_told;      /* its warnings were logged */
	uint64_t unparted;     /* a bit for each GPU: the log has said that it has no parts */
	int config_unread;     /* -errno of the last attempt to read it; 0: it was read */
	struct file_watch config_watch;
	struct config *config;
	struct offer offer[HOST_DEVICES];
	struct health health[HOST_DEVICES];
	uint64_t xids[HOST_DEVICES];
	struct strangers strangers;
	struct inject_edits *edits;
	struct device_files device_files;
	struct cdi_use cdi;
	char node[256];

	struct api *api; /* NULL: no API server */
	struct pods *pods;
	struct nodes *nodes;
	struct mig_label *mig;	      /* NULL: GPUs are not divided by a label */
	struct dra *dra;	      /* plugin/dra/ */
	struct registration *awaited; /* of a stand-by: plugin/dra/standby.h */
	struct seats *seats;	      /* NULL: pods are not counted by amounts */
	struct mps_hub *mps;	      /* plugin/mps/ */
	struct parts *parts;	      /* that are made when they are needed; NULL: no devices */
	char *api_problem;	      /* NULL: none */
	struct list events;
	uint32_t events_under_way;
	struct events_rate events_rate[EVENTS_RATES];
	struct resources *resources;
	struct binding_store bindings;
	struct list asking;
	struct loop_timer sweep; /* used if the API server does not report that a pod is gone */

	char folder[PLUGIN_PATH]; /* of device plugins */
	struct serving serving[SERVINGS_MAX];
	uint32_t servings;
	struct enrol enrol;
	struct http *http, *alive;
	char *metrics_at, *alive_at; /* where they serve */
	char *metrics;		     /* the last text, as of metrics_ns */
	uint64_t metrics_ns, metrics_made;
	uint32_t metrics_copies; /* of that text */
	uint32_t driver_cdi;	 /* a bit for each class of driver_cdi.h that has a file */
	uint64_t allocations, bound, refused; /* for metrics */

	bool settled;		   /* the configuration is known and in force */
	struct loop_timer settle;  /* for the next attempt */
	struct loop_timer profile; /* until the next profile begins */
	struct loop_timer leave;   /* at the end, after the API server was informed */
	uint32_t open_handles;	   /* that are being closed: the memory is freed after the last */
};

/* opening.c */
/* The part of the start that needs the final configuration, which a node's labels may select. On
 * failure the completed steps stay, and it may be retried. */
must_check int plugin_settle(struct plugin *p, struct fault *why);
/* serving.socket, of its resource. -ENAMETOOLONG. */
must_check int plugin_name_socket(struct serving *s, struct fault *why);

/* Finds the driver's files again. On failure the former result stays. */
must_check int plugin_look(struct plugin *p, struct fault *why);

/* cdi.c */
/* Called when the driver's files are known. */
void cdi_find(struct plugin *p);
/* Restores the previous meted's knowledge from the API server. */
void cdi_remember(struct plugin *p);
/* Records the API server's answers about this node. */
void cdi_learn(struct plugin *p, const cJSON *status);

/* device_files.c */
must_check int device_files_open(struct plugin *p, struct fault *why);

/* active_config.c */
must_check int active_config_open(struct plugin *p, struct fault *why);
/* Rereads the file; a mistake in it is logged and changes nothing. */
void active_config_reload(struct plugin *p, const struct config_label *labels, size_t count);
/* Called when nothing more will be learnt of this node: plugin_settle(), until it succeeds. */
must_check int active_config_settle(struct plugin *p, struct fault *why);
/* plugin_entry.divided. / The same, where devices may also have other names. */
must_check int active_config_looked(struct plugin *p, uint32_t former, struct fault *why);
must_check int active_config_divided(struct plugin *p, uint32_t former, struct fault *why);
/* The first time: a failure ends the start or is retried, depending on the file. */
must_check int active_config_start(struct plugin *p, struct fault *why);

/* serve.c */
must_check int serve_open(struct serving *s, struct fault *why);
/* Of one resource, or of all. */
void serve_close_one(struct serving *s);
void serve_close(struct plugin *p);
/* The devices or their health may have changed: tells the listeners if so. */
void serve_changed(struct plugin *p);
/* Any message answers the call. */
void serve_answer(struct grpc_call *call, const struct ProtobufCMessage *message);

/* allocate.c */
void serve_allocate(struct grpc_call *call, struct grpc_bytes request, void *owner);

/* as_nvidia.c */
void as_nvidia_allocate(struct serving *s, struct grpc_call *call,
			const struct V1beta1__ContainerAllocateRequest *said);
/* The name of a device in containers: its UUID, or its index. */
void as_nvidia_name(const struct plugin *p, uint32_t device, char *ret_name, size_t size);

/* The two files that give access to a part of a GPU, if it is one and they are known. */
bool as_nvidia_part_files(const struct plugin *p, const struct host_device *device,
			  char ret_files[2][MIG_FILE]);

/* kinds.c */
/* The resources that the devices are of, by the configuration: plugin.serving and offer.serving.
 * Servers of former ones must be closed. -EINVAL: the strategy does not go with how the GPUs are
 * divided. */
must_check int kinds_find(struct plugin *p, struct fault *why);
/* Whether a first start would be refused. */
must_check int kinds_check(const struct plugin *p, struct fault *why);
/* Does what is there go together, with that configuration? A GPU that has no parts now takes
 * nothing from the others. */
must_check int kinds_fit(const struct plugin *p, const struct config *config, struct fault *why);
/* Warns of GPUs that are in MIG mode and have no parts now, each once as long as that lasts: as
 * NVIDIA's plugin at its start. */
void kinds_say_unparted(struct plugin *p);
/* Would they have other names now? */
bool kinds_differ(const struct plugin *p);
/* The names stay; devices that have come may have others, which are added. Servings go on. 1:
 * all must be served anew. -errno: see kinds_find(). */
must_check int kinds_add(struct plugin *p, struct fault *why);
/* The names stay, and each may have other replicas: its serving goes on. A kubelet that is
 * registered with anew while the former stream ends forgets that one's end (1.36). */
void kinds_follow(struct plugin *p);
/* Which of them offers the device; NULL: none does. Only with a file without `mete`. */
const struct serving *kinds_of(const struct plugin *p, uint32_t device);
/* True if a file without `mete` would have the device offered, under any name. */
bool kinds_offers(const struct plugin *p, const struct config *config, uint32_t device);

/* held.c */
/* Called at each check of health.c. */
void as_nvidia_look(struct plugin *p);
/* The same, without telling the kubelet. */
void as_nvidia_mark(struct plugin *p);

/* offered.c */
/* Determines the offers by the configuration and the current profile. */
void offered_find(struct plugin *p);
/* The NUMA node of a device at that PCI address; -1: unknown. */
int offered_numa(const struct plugin *p, const char *pci);
/* The number of ids that a device has. */
uint32_t offered_ids(const struct plugin *p, uint32_t device);
/* The device of the id; -1: none. */
int offered_device(const struct plugin *p, const char *id);
/* May the kubelet know this id? */
bool offered_could_be(const struct plugin *p, const char *id);
/* The message of ListAndWatch. */
must_check int offered_pack(const struct serving *s, uint8_t **ret_bytes, size_t *ret_size);

/* allocated.c: which devices has the kubelet given, or a part of them, to pods that have not ended?
 * As far as its record, which is read once, and the API server say. `uid`: to this pod; NULL: to
 * any. */
void allocated_devices(const struct plugin *p, const char *uid, bool ret_given[HOST_DEVICES]);

/* rival.c: NVIDIA's device plugin, or its DRA driver, on the same node */
/* "NVIDIA's device plugin" */
const char *rival_name(enum rival rival);
must_check int rival_open(struct plugin *p, struct fault *why);
/* `fresh`: a socket of its has just appeared. */
void rival_look(struct plugin *p, bool fresh);
/* How long NVIDIA's plugin, which was here before the kubelet restarted, may still take to come
 * back; 0: it is gone, or was never here. */
uint64_t rival_return_ns(const struct plugin *p);
/* We have registered: that kubelet has no other owner. / The other owner came meanwhile. */
void rival_registered(struct plugin *p);

/* enrol.c */
must_check int enrol_open(struct plugin *p, struct fault *why);
void enrol_close(struct plugin *p);
/* The kubelet no longer listens to us: registers again, if it is there. */
void enrol_lost(const struct serving *s);
/* Is any resource registered? */
bool enrol_is_done(const struct plugin *p);
/* A resource has been added. */
void enrol_more(struct plugin *p);
/* Which of its sockets exists; false: none. */
bool enrol_kubelet_is(const struct plugin *p, uint64_t *ret_inode, int64_t *ret_changed_ns);

/* prestart.c */
/* A container of that slot waits for an answer. */
bool prestart_asks(const struct plugin *p, const char *key);
/* The server is closing: tells the waiting calls. */
void prestart_abandon(struct plugin *p);
/* PreStartContainer: the call is answered when the container may start, or may not. */
void prestart_asked(struct plugin *p, struct grpc_call *call, const char *const *ids, size_t count);
void prestart_gone(struct grpc_call *call);
/* The information about pods has been updated. */
void prestart_consider(struct plugin *p);

/* containers.c */
/* Its resource was served by meted before under another name: its container keeps its share, and
 * others get its devices only when it has ended. */
bool containers_is_foreign(const struct plugin *p, const struct binding *b);
/* Containers from before this meted keep their tenants. */
void containers_keep(struct plugin *p);
must_check int containers_open(struct plugin *p, struct fault *why);
void containers_close(struct plugin *p);
/* The container with these ids is about to start: from now on it is a tenant, and replaces the
 * former holder of the ids. On failure the caller still owns the binding. */
must_check int containers_make(struct plugin *p, struct binding *b, const struct pod *pod,
			       struct fault *why);
/* No container holds its ids any more. Does nothing if they were bound again. */
void containers_gone(struct plugin *p, const char *key, uint32_t tenant);
/* The configuration, or the profile that is in force, has changed. */
void containers_refresh(struct plugin *p);
/* At each check of health.c: looks for changes that nothing reports. */
void containers_look(struct plugin *p);

/* sweep.c */
must_check int sweep_open(struct plugin *p, struct fault *why);
/* Asks the kubelet whether it still has its ids; if not, it is gone. */
void sweep_ask(struct plugin *p, const struct binding *b);

/* entitled.c */
struct config_device entitled_device(const struct plugin *p, uint32_t device);
/* The present share of a slot of the device. False: it is not shared out. */
bool entitled_portion(const struct plugin *p, uint32_t device, uint32_t *ret_slots,
		      struct config_share *ret_share);
/* The texts of a binding's share, from its devices' portion and the pod's annotations (NULL: the
 * pod is not known). `runs`: values above the limit are lowered to it, not refused. The texts are
 * newly allocated. */
must_check int entitled_share(const struct plugin *p, const struct binding *b,
			      const struct pod *pod, bool runs, char *ret_texts[SHARE_FIELDS],
			      bool *ret_exclusive, struct fault *why);
/* in_force.c: the share of a tenant that runs. `texts`: its present ones; NULL: default. */
struct in_force {
	uint32_t tenant;
	char **texts; /* SHARE_FIELDS; of the tenant's owner */
	struct refusal *refusal;
};

enum { IN_FORCE_ALL = (1 << SHARE_FIELDS) - 1 };

/* The fields whose texts differ, as bits. */
uint32_t in_force_differing(const struct in_force *share, char *const texts[SHARE_FIELDS]);
/* -EINVAL with the same sentence: it has refused these texts, and got no others since. */
must_check int in_force_refused(const struct in_force *share, char *const texts[SHARE_FIELDS],
				struct fault *why);
/* Sets those fields, or none: -errno. */
must_check int in_force_set(struct plugin *p, struct in_force *share,
			    char *const texts[SHARE_FIELDS], uint32_t fields, struct fault *why);

/* The container's share, also from before it was started again; NULL: it is new. */
const struct binding *entitled_former(const struct plugin *p, const struct binding *b);
void entitled_free(char *texts[SHARE_FIELDS]);
/* The devices of a binding: those of its ids, or those that mete's scheduler, or sums/seats.c,
 * chose. -EAGAIN: its pod waits for room. -errno: not ours. */
must_check int entitled_devices(struct plugin *p, struct binding *b, const struct pod *pod,
				struct fault *why);

/* neighbours.c */
/* The part of the time of a binding's devices that is not guaranteed to others, in thousandths.
 * The guarantee of a slot is reserved even while the slot is free. */
uint32_t neighbours_room(const struct plugin *p, const struct binding *b);
/* The memory of each of a binding's devices that the limits of the other containers leave, of
 * the amount that may be promised (`overcommit`). UINT64_MAX: nothing is promised there. */
uint64_t neighbours_memory(const struct plugin *p, const struct binding *b);
/* May it share its devices with the present containers? -EBUSY: it or one of them is exclusive. */
must_check int neighbours_check(const struct plugin *p, const struct binding *b, bool exclusive,
				struct fault *why);
/* Do more containers, including this one, have one of its devices than it has slots now? The
 * configuration, or its profile, may have made the slots fewer and larger. */
bool neighbours_crowded(const struct plugin *p, const struct binding *b);
/* The container that has the device exclusively; NULL: none. */
const struct binding *neighbours_owner(const struct plugin *p, uint32_t device);

/* strangers.c: called at each check of health.c */
void strangers_look(struct plugin *p);
/* Ends the process, if it is in that pod. */
void strangers_kill(uint32_t pid, const char *uid);
/* May there be one more event of a process? Each look brings one. It counts. */
bool strangers_may_say(struct plugin *p);
/* Does `unannounced: kill` hold for the container? */
bool strangers_dies(const struct plugin *p, const struct binding *b);

/* over.c: likewise, after strangers_look() */
void over_look(struct plugin *p);
/* Has the container more than its limit of the device? Two looks in a row have found that. */
bool over_is(const struct binding *b, uint32_t device);

/* waits.c */
void waits_open(struct plugin *p);

/* health.c */
void health_open(struct plugin *p);
/* MIG has made devices, from `former` on, or made some again that were gone. */
void health_divided(struct plugin *p, uint32_t former);
/* -ENODEV: one of its devices is gone from the bus. */
must_check int health_check(const struct plugin *p, const struct binding *b, struct fault *why);

/* metrics.c: also reopens it, if the configuration has a new address. */
must_check int metrics_open(struct plugin *p, struct fault *why);
void metrics_close(struct plugin *p);

/* metrics_text.c: new text; NULL: out of memory. */
char *metrics_write(struct plugin *p);
