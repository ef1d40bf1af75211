/* Build tool: turns a file into a C array. embed NAME FILE > out.c */
#include <stdio.h>

int main(int argc, char **argv)
{
	FILE *in = argc == 3 ? fopen(argv[2], "rb") : NULL;
	unsigned n = 0;
	int c;

	if (in == NULL) {
		fprintf(stderr, "usage: embed NAME FILE\n");
		return 1;
	}
	printf("extern const unsigned char %s[];\nextern const unsigned %s_size;\nconst unsigned char %s[] = {",
	       argv[1], argv[1], argv[1]);
	for (; (c = fgetc(in)) != EOF; n++)
		printf("%s%d,", n % 24 == 0 ? "\n" : "", c);
	printf("\n0};\nconst unsigned %s_size = %u;\n", argv[1], n);
	fclose(in);
	return fflush(stdout) == 0 ? 0 : 1;
}
