// SPDX-License-Identifier: Apache-2.0

// peer client|server SOCKET: grpc-js against kube/grpc.h.
// tests/kube/test_grpc_peers.py says what is expected of it.
'use strict';
const grpc = require('@grpc/grpc-js');
const readline = require('node:readline');

const bytes = (value) => value;
const describe = (name, stream) => ({
  path: '/t/' + name, requestStream: false, responseStream: Boolean(stream),
  requestSerialize: bytes, requestDeserialize: bytes, responseSerialize: bytes, responseDeserialize: bytes,
});
const service = {};
for (const name of ['Echo', 'Refuse', 'Wait', 'Big', 'Push', 'Nowhere']) service[name] = describe(name);
for (const name of ['Count', 'Watch']) service[name] = describe(name, true);

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();

function must(what, good) {
  if (!good) {
    console.log('not so:', what);
    process.exit(1);
  }
  console.log('ok', what);
}

const limits = { 'grpc.max_receive_message_length': 64 << 20, 'grpc.max_send_message_length': 64 << 20 };

async function runClient(socket) {
  const client = new (grpc.makeGenericClientConstructor(service, 't'))('unix:' + socket,
    grpc.credentials.createInsecure(), { ...limits, 'grpc.initial_reconnect_backoff_ms': 100 });
  const ask = (name, request, options = {}) => new Promise((done) =>
    client[name](Buffer.from(request), options, (error, answer) => done({ error, answer })));

  let got = await ask('Echo', 'hello');
  must('echo', !got.error && got.answer.toString() === 'hello');
  got = await ask('Echo', '');
  must('empty', !got.error && got.answer.length === 0);
  got = await ask('Echo', Buffer.alloc(4 << 20, 'x'));
  must('4 MiB', !got.error && got.answer.equals(Buffer.alloc(4 << 20, 'x')));
  got = await ask('Echo', Buffer.alloc((4 << 20) + 1));
  must('too large', got.error.code === grpc.status.RESOURCE_EXHAUSTED);
  got = await ask('Refuse', '9 100 % für 日本\n😀');
  must('refused', got.error.code === grpc.status.FAILED_PRECONDITION && got.error.details === '100 % für 日本\n😀');
  got = await ask('Nowhere', '');
  must('unknown', got.error.code === grpc.status.UNIMPLEMENTED);
  got = await ask('Big', '16777216');
  must('big', !got.error && got.answer.length === 16777216 && got.answer.every((byte, i) => byte === (i * 7) % 256));

  got = await ask('Wait', 'deadline', { deadline: Date.now() + 50 });
  must('deadline', got.error.code === grpc.status.DEADLINE_EXCEEDED);
  let call;
  const cancelled = new Promise((done) => { call = client.Wait(Buffer.from('cancel'), (error) => done(error)); });
  await ask('Echo', '');
  call.cancel();
  must('cancel', (await cancelled).code === grpc.status.CANCELLED);

  const all = await Promise.all(Array.from({ length: 1000 }, (_, i) => ask('Echo', String(i))));
  must('parallel', all.every(({ error, answer }, i) => !error && answer.toString() === String(i)));

  let count = 0;
  for await (const message of client.Count(Buffer.from('1000'))) if (message.toString() === String(count)) count++;
  must('count', count === 1000);

  const watch = client.Watch(Buffer.alloc(0)); // grpc-js reads ahead, whether anybody listens or not
  for (let i = 0; i < 3000; i++) await ask('Push', '');
  let state = 0;
  for await (const message of watch) {
    state = Number(message.subarray(0, message.indexOf(0)).toString());
    if (state === 3000) break;
  }
  must('latest', state === 3000);
  watch.on('error', () => {});
  watch.cancel();

  const left = ask('Wait', 'restart');
  await ask('Echo', '');
  console.log('restart it');
  must('goodbye', (await left).error.code === grpc.status.UNAVAILABLE);
  await lines.next();
  await new Promise((done, fail) => client.waitForReady(Date.now() + 600000, (error) => error ? fail(error) : done()));
  got = await ask('Echo', 'back');
  must('back', !got.error && got.answer.toString() === 'back');
  console.log('done');
  client.close();
  process.exit(0);
}

async function runServer(socket) {
  const server = new grpc.Server(limits);
  server.addService(service, {
    Echo: (call, done) => done(null, call.request),
    Refuse: (call, done) => {
      const [, code, details] = /^(\d+) (.*)$/s.exec(call.request.toString());
      done({ code: Number(code), details });
    },
    Wait: (call) => {
      const name = call.request.toString();
      call.on('cancelled', () => console.log('gone', name));
      console.log('called', name);
    },
    Big: (call, done) => done(null, Buffer.alloc(Number(call.request.toString()), 1)),
  });
  await new Promise((done, fail) => server.bindAsync('unix:' + socket, grpc.ServerCredentials.createInsecure(),
    (error) => error ? fail(error) : done()));
  console.log('ready');
  await lines.next();
  server.forceShutdown();
  process.exit(0);
}

(process.argv[2] === 'client' ? runClient : runServer)(process.argv[3]);
